//! The artifacts of a workflow: each download needs an upload in a job that ends before.

use super::yaml::Yaml;

const UPLOAD: &str = "actions/upload-artifact@";
const DOWNLOAD: &str = "actions/download-artifact@";

/// Returns the downloads that no upload provides, each with its line.
pub(super) fn faults(yaml: &Yaml) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for job in yaml.names(&["jobs"]) {
        for step in yaml.names(&["jobs", job, "steps"]) {
            let path = ["jobs", job, "steps", step];
            let with = |input| yaml.get(&[&path[..], &["with", input]].concat());
            let uses = [&path[..], &["uses"]].concat();
            let Some(entry) = yaml.0.iter().find(|entry| entry.path == uses) else { continue };
            // Another run, and numbers, are known only while the workflow runs.
            if !entry.value.starts_with(DOWNLOAD)
                || with("run-id").or(with("artifact-ids")).is_some()
            {
                continue;
            }
            let step = step.parse().unwrap_or(usize::MAX);
            let uploads = uploads_before(yaml, job, step);
            let wanted = match with("name").or(with("pattern")) {
                Some(name) => expanded(yaml, job, name),
                None => vec!["*".to_owned()],
            };
            let missing =
                wanted.iter().filter(|name| !uploads.iter().any(|own| matches(name, own)));
            faults.extend(
                missing.map(|name| (entry.line, format!("no earlier job uploads `{name}`"))),
            );
        }
    }
    faults
}

/// Returns the names of the artifacts of the jobs that a job needs, and of its own earlier steps.
fn uploads_before(yaml: &Yaml, job: &str, step: usize) -> Vec<String> {
    let mut needed = yaml.list(&["jobs", job, "needs"]);
    let mut at = 0;
    while let Some(next) = needed.get(at).copied() {
        for further in yaml.list(&["jobs", next, "needs"]) {
            if !needed.contains(&further) {
                needed.push(further);
            }
        }
        at += 1;
    }
    let mut uploads: Vec<_> =
        needed.into_iter().flat_map(|needed| uploads(yaml, needed, usize::MAX)).collect();
    uploads.extend(self::uploads(yaml, job, step));
    uploads
}

/// Returns the names of the artifacts that the first steps of a job upload.
fn uploads(yaml: &Yaml, job: &str, steps: usize) -> Vec<String> {
    let mut uploads = Vec::new();
    for step in yaml.names(&["jobs", job, "steps"]).into_iter().take(steps) {
        let of = |rest: &[&str]| yaml.get(&[&["jobs", job, "steps", step], rest].concat());
        if of(&["uses"]).is_some_and(|uses| uses.starts_with(UPLOAD)) {
            uploads.extend(expanded(yaml, job, of(&["with", "name"]).unwrap_or("artifact")));
        }
    }
    uploads
}

/// Returns a name with each value of the matrix in the place of its key.
fn expanded(yaml: &Yaml, job: &str, name: &str) -> Vec<String> {
    let matrix = ["jobs", job, "strategy", "matrix"];
    let include = [&matrix[..], &["include"]].concat();
    let mut names = vec![name.to_owned()];
    loop {
        let open = names.iter().find_map(|name| {
            let (_, rest) = name.split_once("${{")?;
            let (inside, _) = rest.split_once("}}")?;
            let key = inside.trim().strip_prefix("matrix.")?.to_owned();
            Some((format!("${{{{{inside}}}}}"), key))
        });
        let Some((text, key)) = open else { return names };
        let mut values = yaml.list(&[&matrix[..], &[key.as_str()]].concat());
        for item in yaml.names(&include) {
            values.extend(yaml.get(&[&include[..], &[item, key.as_str()]].concat()));
        }
        names = names
            .iter()
            .flat_map(|name| values.iter().map(|value| name.replace(&text, value)))
            .collect();
    }
}

/// Returns whether a name matches a pattern, in which `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| matches(after, rest))
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    const WORKFLOW: &str = "jobs:\n  a:\n    steps:\n      - uses: actions/upload-artifact@1\n        with:\n          \
        name: linux\n  b:\n    strategy:\n      matrix:\n        os: [mac, windows]\n    steps:\n      \
        - uses: actions/upload-artifact@1\n        with:\n          name: python-${{ matrix.os }}\n  c:\n    \
        needs: [a, b]\n    steps:\n      - run: true\n  d:\n    needs: c\n    steps:\n      \
        - uses: actions/download-artifact@1\n        with:\n          INPUT\n";

    fn faults_with(input: &str) -> Vec<String> {
        let workflow = WORKFLOW.replace("INPUT", input);
        faults(&yaml::read(&workflow)).into_iter().map(|fault| fault.1).collect()
    }

    #[test]
    fn download_of_an_earlier_job_is_accepted() {
        for input in [
            "path: x",
            "name: linux",
            "name: python-mac",
            "pattern: python-*",
            "pattern: '*-win*'",
            "run-id: 1",
        ] {
            assert_eq!(faults_with(input), Vec::<String>::new(), "{input}");
        }
    }

    #[test]
    fn download_that_nothing_uploads_is_refused() {
        for (input, name) in [
            ("name: linus", "linus"),
            ("name: python-linux", "python-linux"),
            ("pattern: wheels-*", "wheels-*"),
        ] {
            assert_eq!(faults_with(input), [format!("no earlier job uploads `{name}`")]);
        }
        let unneeded =
            WORKFLOW.replace("INPUT", "name: linux").replace("needs: [a, b]", "needs: b");
        assert_eq!(faults(&yaml::read(&unneeded)).len(), 1);
        let alone = "jobs:\n  d:\n    steps:\n      - uses: actions/download-artifact@1\n";
        assert_eq!(faults(&yaml::read(alone)), [(4, "no earlier job uploads `*`".to_owned())]);
    }
}
