//! The changelog: its headings, and the changes below each.

use std::ops::Range;

use super::version::Version;
use crate::Result;

pub(crate) const CHANGELOG: &str = "CHANGELOG.md";

/// The heading of changes since the last release.
pub(crate) const UNRELEASED: &str = "## Unreleased";

/// A heading of the second level, and everything up to the next one.
struct Section {
    /// The bytes of the heading, with the end of its line.
    heading: Range<usize>,
    /// The bytes below the heading.
    body: Range<usize>,
}

impl Section {
    /// Returns the heading without spaces at its end.
    fn title<'a>(&self, text: &'a str) -> &'a str {
        text[self.heading.clone()].trim_end()
    }

    /// Returns whether the section describes a change. Headings and comments alone do not.
    fn has_changes(&self, text: &str) -> bool {
        text[self.body.clone()].lines().map(str::trim).any(|line| {
            let comment = line.starts_with("<!--") && line.ends_with("-->");
            !line.is_empty() && !line.starts_with('#') && !comment
        })
    }
}

/// Returns the sections of a changelog. A line in a block of code is not a heading.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut fence = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (mark, fence) {
            (Some(mark), None) => fence = Some(mark),
            (Some(mark), Some(open)) if mark == open => fence = None,
            (None, None) if line.starts_with("## ") => {
                sections.push(Section { heading: start..end, body: end..end });
            }
            _ => {}
        }
        if let Some(last) = sections.last_mut() {
            last.body.end = end;
        }
        start = end;
    }
    sections
}

/// Returns the heading of a version, without its date.
fn heading(version: &Version) -> String {
    format!("## {version} - ")
}

/// Returns the section with the heading of a version.
fn of_version<'a>(sections: &'a [Section], text: &str, version: &Version) -> Option<&'a Section> {
    let heading = heading(version);
    sections.iter().find(|section| section.title(text).starts_with(&heading))
}

/// Returns whether a changelog has the heading of a version.
pub(crate) fn lists(text: &str, version: &Version) -> bool {
    of_version(&sections(text), text, version).is_some()
}

/// Returns the changes that a released version's heading does not have: those below `## Unreleased`.
fn late<'a>(sections: &'a [Section], text: &str) -> Option<&'a Section> {
    let unreleased = sections.iter().find(|section| section.title(text) == UNRELEASED)?;
    unreleased.has_changes(text).then_some(unreleased)
}

/// Returns what is wrong with the changelog of a commit that is released as a version.
pub(super) fn faults(text: &str, version: &Version) -> Vec<String> {
    let sections = sections(text);
    let heading = heading(version);
    let of_version = of_version(&sections, text, version);
    let date = of_version.and_then(|section| section.title(text).strip_prefix(&heading));
    if !date.is_some_and(is_date) {
        return vec![format!("{CHANGELOG} lacks the line `{heading}YEAR-MONTH-DAY`")];
    }
    late(&sections, text).map(|_| left_over(version)).into_iter().collect()
}

fn left_over(version: &Version) -> String {
    format!(
        "{CHANGELOG} has changes under `{UNRELEASED}`, although {version} has its heading; move them below this \
         heading, or choose a later version"
    )
}

/// Returns the changelog with the unreleased changes under a dated heading, or `None` if it has this heading. The heading
/// of a pre-release of the version becomes that of the version, so that a release lists all changes since the last one.
pub(crate) fn dated(
    text: &str,
    current: &Version,
    version: &Version,
    date: &str,
) -> Result<Option<String>> {
    let sections = sections(text);
    if of_version(&sections, text, version).is_some() {
        return match late(&sections, text) {
            None => Ok(None),
            Some(_) => Err(left_over(version)),
        };
    }
    let Some(unreleased) = sections.iter().find(|section| section.title(text) == UNRELEASED) else {
        return Err(format!("{CHANGELOG} lacks the heading `{UNRELEASED}`; add it"));
    };
    let candidate = of_version(&sections, text, current);
    let candidate = candidate.filter(|candidate| {
        current.is_before_release_of(version) && candidate.heading.start > unreleased.heading.start
    });
    if candidate.is_none() && !unreleased.has_changes(text) {
        return Err(format!(
            "{CHANGELOG} lacks a change under `{UNRELEASED}`; describe the changes of {version} there"
        ));
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let heading = format!("{}{date}{end}", heading(version));
    let mut text = text.to_owned();
    match candidate {
        Some(candidate) if !unreleased.has_changes(&text) => {
            text.replace_range(candidate.heading.clone(), &heading);
        }
        _ => {
            // The changes of the candidate stay below the new ones. Its heading is the later one.
            if let Some(candidate) = candidate {
                let below = candidate.body.start;
                let blank = if text[below..].starts_with(end) { end.len() } else { 0 };
                text.replace_range(candidate.heading.start..below + blank, "");
            }
            text.insert_str(unreleased.heading.end, &format!("{end}{heading}"));
        }
    }
    Ok(Some(text))
}

/// Returns the number of days of each month.
pub(crate) fn month_lengths(year: u64) -> [u64; 12] {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Returns whether a text is a day of the calendar: `2026-11-27`.
fn is_date(text: &str) -> bool {
    let numbers: Vec<_> = text.split('-').collect();
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let [Ok(year), Ok(month), Ok(day)] =
        numbers.iter().map(|n| n.parse::<u64>()).collect::<Vec<_>>()[..]
    else {
        return false;
    };
    let length = month
        .checked_sub(1)
        .and_then(|month| month_lengths(year).get(usize::try_from(month).ok()?).copied());
    let widths: Vec<_> = numbers.iter().map(|n| n.len()).collect();
    digits && widths == [4, 2, 2] && length.is_some_and(|length| (1..=length).contains(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn dated_now(text: &str, current: &str, new: &str) -> Result<Option<String>> {
        dated(text, &version(current), &version(new), "2031-02-03")
    }

    fn faults_of(text: &str) -> String {
        faults(text, &version("0.2.0")).join("\n")
    }

    #[test]
    fn candidate_without_new_changes_becomes_the_release() {
        let text =
            "## Unreleased\n\n## 0.2.0-rc.1 - 2031-01-01\n\n- New.\n\n## 0.1.0 - 2030-01-01\n";
        let expected = text.replace("0.2.0-rc.1 - 2031-01-01", "0.2.0 - 2031-02-03");
        assert_eq!(dated_now(text, "0.2.0-rc.1", "0.2.0"), Ok(Some(expected)));
        let error = dated_now(text, "0.2.0-rc.1", "0.3.0").unwrap_err();
        assert!(error.contains("lacks a change under `## Unreleased`"), "{error}");
    }

    #[test]
    fn release_lists_new_changes_above_those_of_its_candidate() {
        let text = "## Unreleased\n\n- Fix.\n\n## 0.2.0-rc.1 - 2031-01-01\n\n- New.\n";
        let expected = "## Unreleased\n\n## 0.2.0 - 2031-02-03\n\n- Fix.\n\n- New.\n";
        assert_eq!(dated_now(text, "0.2.0-rc.1", "0.2.0"), Ok(Some(expected.to_owned())));
    }

    #[test]
    fn changes_after_the_heading_of_the_version_are_refused() {
        let text = "## Unreleased\n\n- Late.\n\n## 0.2.0 - 2031-01-01\n\n- New.\n";
        assert!(
            faults_of(text).contains("has changes under `## Unreleased`"),
            "{}",
            faults_of(text)
        );
        let error = dated_now(text, "0.2.0", "0.2.0").unwrap_err();
        assert!(error.contains("has changes under `## Unreleased`"), "{error}");
        assert_eq!(faults_of(&text.replace("- Late.\n", "")), "");
    }

    #[test]
    fn only_headings_of_the_second_level_outside_of_code_count() {
        for other in
            ["### Unreleased\n", "```\n## Unreleased\n```\n", "~~~\n```\n## Unreleased\n~~~\n"]
        {
            let text = format!("# Changelog\n\n{other}\n- New.\n");
            let error = dated_now(&text, "0.1.0", "0.2.0").unwrap_err();
            assert!(error.contains("lacks the heading"), "{error}");
            let text = format!("# Changelog\n\n{other}\n## Unreleased\n\n- New.\n");
            let expected = text
                .replace("\n## Unreleased\n\n-", "\n## Unreleased\n\n## 0.2.0 - 2031-02-03\n\n-");
            assert_eq!(dated_now(&text, "0.1.0", "0.2.0"), Ok(Some(expected)));
        }
        let text = "## Unreleased\n\n```\n## 0.2.0 - 2031-01-01\n```\n";
        assert!(faults_of(text).contains("lacks the line"), "{}", faults_of(text));
    }

    #[test]
    fn line_ends_of_windows_and_spaces_are_kept() {
        let text = "# C\r\n\r\n## Unreleased \r\n\r\n- New.\r\n";
        let expected = "# C\r\n\r\n## Unreleased \r\n\r\n## 0.2.0 - 2031-02-03\r\n\r\n- New.\r\n";
        assert_eq!(dated_now(text, "0.1.0", "0.2.0"), Ok(Some(expected.to_owned())));
        assert_eq!(faults_of(expected), "");
    }

    #[test]
    fn headings_and_comments_are_not_changes() {
        for text in [
            "",
            "\n### Added\n",
            "\n### Added\n\n<!-- Describe it. -->\n",
            "\n## 0.0.1 - x\n\n- Old.\n",
        ] {
            let error = dated_now(&format!("## Unreleased\n{text}"), "0.1.0", "0.2.0").unwrap_err();
            assert!(error.contains("lacks a change"), "{error}");
        }
    }

    #[test]
    fn only_days_of_the_calendar_are_dates() {
        for date in ["2026-01-31", "2028-02-29", "2000-02-29", "2026-12-01"] {
            assert!(is_date(date), "{date}");
        }
        for date in [
            "2026-99-99",
            "2026-00-10",
            "2026-02-29",
            "2100-02-29",
            "2026-04-31",
            "2026-1-1",
            "2026-01-00",
            "2026-01",
            "2026-01-01-01",
            "+026-01-01",
            "2026-01-01 ",
            "",
        ] {
            assert!(!is_date(date), "{date}");
        }
    }
}
