//! Named stages and the time each took.

use std::{
    error::Error,
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// The stages run so far.
#[derive(Default)]
pub struct Stages(Vec<Stage>);

struct Stage {
    name: &'static str,
    took: Duration,
    ended: Ended,
}

#[derive(Clone, Copy)]
enum Ended {
    Passed,
    Skipped,
    Failed,
}

/// The error of a stage that could not run here, for a reason that is no fault of this workspace.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

impl Error for Skipped {}

impl Stages {
    /// Runs one stage and notes its time; an error carries its name. One that is [`Skipped`] says why and is no
    /// error.
    pub fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let start = Instant::now();
        let mut outcome = stage();
        let mut ended = Ended::Passed;
        if let Err(error) = &outcome {
            ended = Ended::Failed;
            if error.is::<Skipped>() {
                println!("{name}: {error:#}");
                ended = Ended::Skipped;
                outcome = Ok(());
            }
        }
        self.0.push(Stage {
            name,
            took: start.elapsed(),
            ended,
        });
        outcome.with_context(|| format!("stage {name} failed"))
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut total = Duration::ZERO;
        for Stage { name, took, ended } in &self.0 {
            let word = match ended {
                Ended::Passed => "ok",
                Ended::Skipped => "SKIPPED",
                Ended::Failed => "FAILED",
            };
            writeln!(f, "{name:<12} {:>8.1} s  {word}", took.as_secs_f64())?;
            total += *took;
        }
        writeln!(f, "{:<12} {:>8.1} s", "total", total.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::{Skipped, Stages};

    #[test]
    fn failure_carries_the_name_of_its_stage() {
        let mut stages = Stages::default();
        assert!(stages.run("fmt", || Ok(())).is_ok());
        assert!(
            stages
                .run("kernels", || Err(Skipped("no network".into()).into()))
                .is_ok()
        );
        let error = stages
            .run("unit", || bail!("2 failed"))
            .expect_err("it failed");
        assert_eq!(format!("{error:#}"), "stage unit failed: 2 failed");
        let table = stages.to_string();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!((lines[0][0], lines[0][3]), ("fmt", "ok"));
        assert_eq!((lines[1][0], lines[1][3]), ("kernels", "SKIPPED"));
        assert_eq!((lines[2][0], lines[2][3]), ("unit", "FAILED"));
        assert_eq!(lines[3][0], "total");
    }
}
