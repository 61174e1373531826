//! Counts tests in the output of `cargo test`, so that a class of tests that did not run is a
//! failure and not a silence.

use anyhow::{Result, bail};

/// Results per test target, in order.
#[derive(Debug, Default)]
pub struct Counts(Vec<Target>);

#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// `tests/refusal.rs`, `unittests src/lib.rs`, or a crate with doc tests.
    name: String,
    passed: u32,
    ignored: u32,
}

impl Counts {
    /// Takes the next line of output.
    pub fn read(&mut self, line: &str) {
        if let Some(name) = target_name(line) {
            self.0.push(Target {
                name,
                passed: 0,
                ignored: 0,
            });
        } else if let Some((passed, ignored)) = result(line)
            && let Some(target) = self.0.last_mut()
        {
            target.passed += passed;
            target.ignored += ignored;
        }
    }

    /// Some test ran and none was ignored.
    pub fn require_unit(&self) -> Result<()> {
        self.require_none_ignored()?;
        if self.0.iter().all(|target| target.passed == 0) {
            bail!("no test ran");
        }
        Ok(())
    }

    /// Every end-to-end target ran at least one test, and none was ignored.
    pub fn require_end_to_end(&self) -> Result<()> {
        self.require_none_ignored()?;
        let mut targets = self
            .0
            .iter()
            .filter(|target| target.name.starts_with("tests/"))
            .peekable();
        if targets.peek().is_none() {
            bail!("there is no end-to-end test");
        }
        match targets.find(|target| target.passed == 0) {
            Some(target) => bail!("no test of {} ran", target.name),
            None => Ok(()),
        }
    }

    fn require_none_ignored(&self) -> Result<()> {
        match self.0.iter().find(|target| target.ignored > 0) {
            Some(target) => bail!("{} test(s) of {} are ignored", target.ignored, target.name),
            None => Ok(()),
        }
    }
}

/// `Running tests/refusal.rs (target/debug/deps/refusal-0a)` or `Doc-tests overload_common`.
fn target_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("doc-tests {name}"));
    }
    let (name, executable) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    executable.ends_with(')').then(|| name.to_owned())
}

/// Passed and ignored out of `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn result(line: &str) -> Option<(u32, u32)> {
    let fields = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let field = |word: &str| {
        fields
            .split("; ")
            .find_map(|field| field.strip_suffix(word)?.trim_end().parse().ok())
    };
    Some((field("passed")?, field("ignored")?))
}

#[cfg(test)]
mod tests {
    use super::{Counts, Target};

    fn counts(output: &str) -> Counts {
        let mut counts = Counts::default();
        output.lines().for_each(|line| counts.read(line));
        counts
    }

    fn target(name: &str, passed: u32, ignored: u32) -> Target {
        Target {
            name: name.into(),
            passed,
            ignored,
        }
    }

    const RAN: &str = "\
     Running unittests src/lib.rs (target/debug/deps/overload_tests-1a)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/refusal.rs (target/debug/deps/refusal-2b)

running 2 tests
test c09_to_tag_place ... ok
test c10_via_received ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s

   Doc-tests overload_tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn counts_belong_to_their_target() {
        assert_eq!(
            counts(RAN).0,
            [
                target("unittests src/lib.rs", 0, 0),
                target("tests/refusal.rs", 2, 0),
                target("doc-tests overload_tests", 0, 0),
            ]
        );
        assert!(counts(RAN).require_unit().is_ok());
        assert!(counts(RAN).require_end_to_end().is_ok());
    }

    #[test]
    fn skipped_class_fails() {
        let skipped = RAN.replace("ok. 2 passed", "ok. 0 passed");
        assert!(counts(&skipped).require_unit().is_err());
        assert!(counts(&skipped).require_end_to_end().is_err());
        assert!(counts("").require_unit().is_err());
        assert!(counts("").require_end_to_end().is_err());
        // Unit tests are no end-to-end tests.
        let unit = RAN.replace("Running tests/", "Running unittests ");
        assert!(counts(&unit).require_unit().is_ok());
        assert!(counts(&unit).require_end_to_end().is_err());
    }

    #[test]
    fn ignored_test_fails() {
        let ignored = RAN.replace(
            "2 passed; 0 failed; 0 ignored",
            "1 passed; 0 failed; 1 ignored",
        );
        assert!(counts(&ignored).require_unit().is_err());
        assert!(counts(&ignored).require_end_to_end().is_err());
    }
}
