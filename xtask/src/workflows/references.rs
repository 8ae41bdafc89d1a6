//! The names in a workflow or action that must be defined elsewhere in it: jobs, steps, the matrix, inputs, and the actions
//! of this repository.

use std::fs;
use std::path::Path;

use super::yaml::{self, Entry, Yaml};

/// Returns the references of a file that nothing defines, each with its line.
pub(super) fn faults(root: &Path, yaml: &Yaml) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for job in yaml.names(&["jobs"]) {
        for need in yaml.list(&["jobs", job, "needs"]) {
            if yaml.get(&["jobs", need]).is_none() {
                faults.push((line(yaml, &["jobs", job, "needs"]), format!("no job `{need}`")));
            }
        }
        let scope = Scope { root, yaml, room: &["jobs", job], job: Some(job) };
        faults.extend(scope.faults());
    }
    if yaml.get(&["runs"]).is_some() {
        let action = Scope { root, yaml, room: &["runs"], job: None };
        faults.extend(action.faults());
        let outputs = yaml.below(&["outputs"]).flat_map(|entry| action.undefined(entry, None));
        faults.extend(outputs);
    }
    faults
}

fn line(yaml: &Yaml, path: &[&str]) -> usize {
    yaml.0.iter().find(|entry| entry.path == path).map_or(0, |entry| entry.line)
}

/// A job, or the steps of an action.
struct Scope<'a> {
    root: &'a Path,
    yaml: &'a Yaml,
    /// The path of the entries.
    room: &'a [&'a str],
    job: Option<&'a str>,
}

impl Scope<'_> {
    fn faults(&self) -> Vec<(usize, String)> {
        let mut faults = Vec::new();
        for entry in self.yaml.below(self.room) {
            let below: Vec<_> = entry.path[self.room.len()..].iter().map(String::as_str).collect();
            let step = match below[..] {
                ["steps", step, ..] => step.parse().ok(),
                _ => None,
            };
            faults.extend(self.undefined(entry, step));
            if below.last() == Some(&"uses") {
                let path: Vec<_> = entry.path.iter().map(String::as_str).collect();
                let with = [&path[..path.len() - 1], &["with"]].concat();
                let inputs = self.yaml.names(&with);
                let reasons = wrong_use(self.root, &entry.value, &inputs);
                faults.extend(reasons.into_iter().map(|reason| (entry.line, reason)));
            }
        }
        faults
    }

    /// Returns the names in the expressions of an entry that are not defined before this step.
    fn undefined(&self, entry: &Entry, step: Option<usize>) -> Vec<(usize, String)> {
        let is_condition = entry.path.last().is_some_and(|name| name == "if");
        let names = expressions(&entry.value, is_condition).into_iter().flat_map(names_in);
        let wrong = names.filter(|name| {
            let parts: Vec<_> = name.split('.').collect();
            !match parts[..] {
                ["steps", id, "outputs", output, ..] => self.has_output(id, output, step),
                ["steps", id, ..] => self.step(id, step).is_some(),
                ["matrix", key, ..] => self.has_key(key),
                ["needs", job, ref rest @ ..] => self.has_need(job, rest),
                ["inputs", input, ..] => self.has_input(input),
                _ => true,
            }
        });
        wrong.map(|name| (entry.line, format!("`{name}` is not defined"))).collect()
    }

    /// Returns the path of an earlier step, or of any step outside of the steps.
    fn step(&self, id: &str, before: Option<usize>) -> Option<Vec<&str>> {
        let steps = [self.room, &["steps"]].concat();
        let names = self.yaml.names(&steps).into_iter();
        let mut earlier = names.take(before.unwrap_or(usize::MAX));
        earlier.find_map(|step| {
            let path = [&steps[..], &[step]].concat();
            let own = self.yaml.get(&[&path[..], &["id"]].concat())?;
            (own == id).then_some(path)
        })
    }

    /// Returns whether a step has an output. Those of foreign actions and of scripts are not known here.
    fn has_output(&self, id: &str, output: &str, before: Option<usize>) -> bool {
        let Some(step) = self.step(id, before) else { return false };
        let uses = self.yaml.get(&[&step[..], &["uses"]].concat());
        match uses.and_then(local).map(|folder| action(self.root, folder)) {
            Some(Some(action)) => action.get(&["outputs", output]).is_some(),
            _ => true,
        }
    }

    fn has_key(&self, key: &str) -> bool {
        let Some(job) = self.job else { return false };
        let matrix = ["jobs", job, "strategy", "matrix"];
        let is_computed = |path: &[&str]| self.yaml.get(path).is_some_and(|v| v.contains("${{"));
        let include = [&matrix[..], &["include"]].concat();
        let mut included = self.yaml.names(&include).into_iter();
        is_computed(&matrix)
            || is_computed(&include)
            || self.yaml.get(&[&matrix[..], &[key]].concat()).is_some()
            || included.any(|item| self.yaml.get(&[&include[..], &[item, key]].concat()).is_some())
    }

    fn has_need(&self, job: &str, rest: &[&str]) -> bool {
        let Some(own) = self.job else { return false };
        let is_needed = self.yaml.list(&["jobs", own, "needs"]).contains(&job);
        // The schema checks what a job that calls a workflow has.
        let is_call = self.yaml.get(&["jobs", job, "uses"]).is_some();
        is_needed
            && match rest {
                ["outputs", output, ..] => {
                    is_call || self.yaml.get(&["jobs", job, "outputs", output]).is_some()
                }
                [] | ["result" | "outputs" | "*"] => true,
                _ => false,
            }
    }

    fn has_input(&self, input: &str) -> bool {
        let of_workflow = |event| self.yaml.get(&["on", event, "inputs", input]).is_some();
        match self.job {
            None => self.yaml.get(&["inputs", input]).is_some(),
            Some(_) => of_workflow("workflow_dispatch") || of_workflow("workflow_call"),
        }
    }
}

/// Returns what is wrong with the use of an action of this repository.
fn wrong_use(root: &Path, uses: &str, with: &[&str]) -> Vec<String> {
    let Some(folder) = local(uses) else { return Vec::new() };
    if folder.ends_with(".yml") || folder.ends_with(".yaml") {
        let exists = root.join(folder).is_file();
        return if exists { Vec::new() } else { vec![format!("no workflow `{folder}`")] };
    }
    let Some(action) = action(root, folder) else {
        return vec![format!("no action in `{folder}`")];
    };
    let inputs = action.names(&["inputs"]);
    let unknown = with.iter().filter(|input| !inputs.contains(input));
    let mut wrong: Vec<_> =
        unknown.map(|input| format!("`{folder}` has no input `{input}`")).collect();
    let missing = inputs.iter().filter(|input| {
        let of = |field| action.get(&["inputs", input, field]);
        of("required") == Some("true") && of("default").is_none() && !with.contains(input)
    });
    wrong.extend(missing.map(|input| format!("`{folder}` needs the input `{input}`")));
    wrong
}

/// Returns the path of an action of this repository: `$/` is the commit of the workflow, `./` the checkout.
fn local(uses: &str) -> Option<&str> {
    uses.strip_prefix("$/").or_else(|| uses.strip_prefix("./"))
}

fn action(root: &Path, folder: &str) -> Option<Yaml> {
    let read = |name| fs::read_to_string(root.join(folder).join(name)).ok();
    let text = ["action.yml", "action.yaml"].into_iter().find_map(read)?;
    Some(yaml::read(&text))
}

/// Returns the expressions in a value. A condition is an expression without brackets.
fn expressions(value: &str, is_condition: bool) -> Vec<&str> {
    if is_condition {
        return vec![value];
    }
    value.split("${{").skip(1).map(|rest| rest.split("}}").next().unwrap_or(rest)).collect()
}

/// Returns the names in an expression: `steps.setup.outputs.python`. Text in quotes has none.
fn names_in(expression: &str) -> Vec<String> {
    let outside: String = expression.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
    outside.split(|c| !is_name(c)).filter(|name| name.contains('.')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    use super::*;

    const ACTION: &str = "inputs:\n  python:\n    default: x\nruns:\n  steps:\n    - id: a\n      run: echo \
        ${{ inputs.python }}\noutputs:\n  path:\n    value: ${{ steps.a.outputs.path }}\n";

    const WORKFLOW: &str = "on:\n  workflow_dispatch:\n    inputs:\n      seconds:\njobs:\n  one:\n    outputs:\n      \
        x: ${{ steps.set.outputs.path }}\n    strategy:\n      matrix:\n        os: [a, b]\n        include:\n          \
        - os: c\n            extra: d\n    steps:\n      - id: set\n        uses: $/actions/setup\n        with:\n          \
        python: ${{ matrix.os }} ${{ matrix.extra }}\n      - if: steps.set.outcome == 'steps.none.outcome'\n        \
        run: echo ${{ steps.set.outputs.path }} ${{ inputs.seconds }}\n  two:\n    needs: [one]\n    steps:\n      \
        - run: echo ${{ needs.one.result }} ${{ needs.one.outputs.x }} ${{ github.ref }}\n";

    /// Returns the faults of a workflow in a repository with one action.
    fn faults_of(workflow: &str) -> Vec<String> {
        // Tests run side by side, and each of them reads the action.
        static ROOT: OnceLock<PathBuf> = OnceLock::new();
        let root = ROOT.get_or_init(|| {
            let root =
                std::env::temp_dir().join(format!("xtask-references-{}", std::process::id()));
            fs::create_dir_all(root.join("actions/setup")).unwrap();
            fs::write(root.join("actions/setup/action.yml"), ACTION).unwrap();
            root
        });
        faults(root, &yaml::read(workflow)).into_iter().map(|fault| fault.1).collect()
    }

    #[test]
    fn defined_names_are_accepted() {
        assert_eq!(faults_of(WORKFLOW), Vec::<String>::new());
        assert_eq!(faults_of(ACTION), Vec::<String>::new());
    }

    #[test]
    fn undefined_name_in_a_workflow_is_refused() {
        for (from, to, expected) in [
            ("$/actions/setup", "$/actions/setpu", "no action in `actions/setpu`"),
            ("$/actions/setup", "./actions/setpu", "no action in `actions/setpu`"),
            ("$/actions/setup", "$/actions/ci.yml", "no workflow `actions/ci.yml`"),
            ("          python:", "          pyhton:", "`actions/setup` has no input `pyhton`"),
            ("needs: [one]", "needs: [oen]", "no job `oen`"),
            ("needs: [one]", "needs: oen", "no job `oen`"),
            ("needs.one.result", "needs.oen.result", "`needs.oen.result` is not defined"),
            ("needs.one.result", "needs.one.resutl", "`needs.one.resutl` is not defined"),
            ("needs.one.outputs.x", "needs.one.outputs.y", "`needs.one.outputs.y` is not defined"),
            ("matrix.os", "matrix.so", "`matrix.so` is not defined"),
            ("if: steps.set", "if: steps.sett", "`steps.sett.outcome` is not defined"),
            ("path }} ${{ in", "paht }} ${{ in", "`steps.set.outputs.paht` is not defined"),
            ("x: ${{ steps.set", "x: ${{ steps.sett", "`steps.sett.outputs.path` is not defined"),
            ("matrix.extra", "steps.set.outcome", "`steps.set.outcome` is not defined"),
            ("inputs.seconds", "inputs.second", "`inputs.second` is not defined"),
        ] {
            let changed = WORKFLOW.replacen(from, to, 1);
            assert_ne!(changed, WORKFLOW, "{from}");
            assert!(
                faults_of(&changed).contains(&expected.to_owned()),
                "{to}: {:?}",
                faults_of(&changed)
            );
        }
    }

    #[test]
    fn undefined_name_in_an_action_is_refused() {
        for (from, to) in
            [("inputs.python", "inputs.pyhton"), ("steps.a.outputs", "steps.b.outputs")]
        {
            assert_eq!(faults_of(&ACTION.replacen(from, to, 1)).len(), 1, "{to}");
        }
    }

    #[test]
    fn missing_required_input_is_refused() {
        let root = std::env::temp_dir().join(format!("xtask-required-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("action.yml"), "inputs:\n  name:\n    required: true\n").unwrap();
        assert_eq!(wrong_use(&root, "./", &[]), ["`` needs the input `name`"]);
        assert!(wrong_use(&root, "./", &["name"]).is_empty());
        let _ = fs::remove_dir_all(&root);
    }
}
