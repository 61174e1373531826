//! Captures, read by an independent decoder.

use std::{path::PathBuf, process::Command, thread, time::Duration};

use anyhow::Result;

use crate::{command::run, lab::Lab, namespace::Namespace, process::Process};

/// A running capture of one interface. On the host's end it sees what the filter lets through, never
/// what the filter answers; on the client's end it sees the answers.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    file: PathBuf,
}

impl Capture {
    /// Starts to capture UDP on `interface` and returns once it is listening.
    pub fn start(lab: &Lab, namespace: &Namespace, interface: &str, name: &str) -> Result<Self> {
        let file = lab.directory().join(format!("{name}.pcap"));
        let mut command = namespace.command("tcpdump");
        command
            .args([
                "-n",
                "-U",
                "--immediate-mode",
                "-B",
                "16384",
                "-s",
                "0",
                "-Z",
                "root",
            ])
            .args(["-i", interface, "-w"])
            .arg(&file)
            .arg("udp");
        let mut process = Process::start(command, name, lab.directory())?;
        process.wait_for_log("listening on", Duration::from_secs(10))?;
        Ok(Self { process, file })
    }

    /// Ends the capture and gives the file.
    pub fn stop(mut self) -> Result<Pcap> {
        // What was sent just before must still reach the file.
        thread::sleep(Duration::from_millis(300));
        self.process.stop()?;
        Ok(Pcap { file: self.file })
    }
}

/// A finished capture.
#[derive(Debug)]
pub struct Pcap {
    file: PathBuf,
}

impl Pcap {
    /// The `fields` of each packet that matches a display filter; a field that occurs more than once
    /// is joined by commas, one that is missing is empty. IP and UDP checksums are verified.
    pub fn fields(&self, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>> {
        let mut command = Command::new("tshark");
        command
            .args(["-n", "-r"])
            .arg(&self.file)
            .args([
                "-o",
                "udp.check_checksum:TRUE",
                "-o",
                "ip.check_checksum:TRUE",
            ])
            .args(["-Y", filter, "-T", "fields", "-E", "separator=/t"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let text = run(&mut command)?;
        Ok(text
            .lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect())
    }

    /// How many packets match a display filter.
    pub fn count(&self, filter: &str) -> Result<usize> {
        Ok(self.fields(filter, &["frame.number"])?.len())
    }
}
