//! A patch, and what stands above it: the mistake it makes, and the test that must see it.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// Where the patches are.
pub const DIRECTORY: &str = "tests/faults";

/// One mistake.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The patch.
    pub file: PathBuf,
    /// The mistake, in one line.
    pub description: String,
    /// File of the test, without its extension.
    pub target: String,
    /// The test.
    pub test: String,
}

impl Fault {
    /// All faults, in the order of their names.
    pub fn all() -> Result<Vec<Self>> {
        let directory = shell::workspace()?.join(DIRECTORY);
        let list = || format!("list {}", directory.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(&directory).with_context(list)? {
            files.push(entry.with_context(list)?.path());
        }
        files.retain(|file| file.extension().is_some_and(|kind| kind == "patch"));
        files.sort();
        files.into_iter().map(Self::read).collect()
    }

    fn read(file: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let [description, test] = ["Fault: ", "Test: "].map(|word| field(&text, word));
        let wanted = || {
            format!(
                "{}: lines `Fault: what is wrong` and `Test: file name` must stand above the patch",
                file.display()
            )
        };
        let (target, test) = test
            .and_then(|test| test.split_once(' '))
            .with_context(wanted)?;
        Ok(Self {
            description: description.with_context(wanted)?.to_owned(),
            target: target.to_owned(),
            test: test.to_owned(),
            file,
        })
    }

    /// Whether the test passed, by what `cargo test` printed.
    pub fn passed(&self, text: &str) -> bool {
        self.ended(text, "ok")
    }

    /// Whether it ran and failed.
    pub fn failed(&self, text: &str) -> bool {
        self.ended(text, "FAILED")
    }

    fn ended(&self, text: &str, word: &str) -> bool {
        let line = format!("test {} ... {word}", self.test);
        text.lines().any(|found| found == line)
    }
}

/// What stands behind a word at the start of a line, above the patch.
fn field<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines()
        .take_while(|line| !line.starts_with("--- "))
        .find_map(|line| line.strip_prefix(word))
}

#[cfg(test)]
mod tests {
    use super::{Fault, field};

    const PATCH: &str = "Fault: a mistake\nTest: packet_route a_test\n--- a/x\n+++ b/x\n\
                         @@ -1 +1 @@\n-Fault: no\n+Other: no\n";

    #[test]
    fn fields_stand_above_the_patch() {
        assert_eq!(field(PATCH, "Fault: "), Some("a mistake"));
        assert_eq!(field(PATCH, "Test: "), Some("packet_route a_test"));
        assert_eq!(field(PATCH, "+Other: "), None);
    }

    #[test]
    fn only_a_test_that_ran_passed_or_failed() {
        let fault = Fault {
            file: "x.patch".into(),
            description: String::new(),
            target: "packet_route".into(),
            test: "a_test".into(),
        };
        let red = "running 1 test\ntest a_test ... FAILED\n";
        assert!(fault.failed(red) && !fault.passed(red));
        let green = "running 1 test\ntest a_test ... ok\n";
        assert!(!fault.failed(green) && fault.passed(green));
        for none in ["running 0 tests\n", "error: could not compile\n", ""] {
            assert!(!fault.failed(none) && !fault.passed(none));
        }
    }
}
