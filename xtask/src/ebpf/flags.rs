//! Flags for the compiler, and how machine paths are kept out of what it writes.

use std::path::{Path, PathBuf};

/// Instruction set: the newest that every supported kernel (6.1 on) has whole.
pub const TARGET_CPU: &str = "v3";
const SEPARATOR: &str = "\u{1f}";

/// Directories of this machine whose names would else stand in the object.
pub struct Machine {
    pub workspace: PathBuf,
    /// Unpacked dependencies: one directory per registry, with a hash in its name.
    pub registries: Vec<PathBuf>,
    /// Sources of `core`, by each name they go by.
    pub library_sources: Vec<PathBuf>,
}

/// The value of `CARGO_ENCODED_RUSTFLAGS`.
pub fn encoded(machine: &Machine) -> String {
    let mut flags: Vec<String> = vec![
        "-C".into(),
        format!("target-cpu={TARGET_CPU}"),
        "-C".into(),
        "target-feature=+allows-misaligned-mem-access".into(),
        // Global functions and bpf_loop need BTF, which is made from debug information.
        "-C".into(),
        "debuginfo=2".into(),
        "-C".into(),
        "link-arg=--btf".into(),
    ];
    flags.extend(
        machine
            .registries
            .iter()
            .map(|dir| remap(dir, "/registry/")),
    );
    flags.extend(
        machine
            .library_sources
            .iter()
            .map(|dir| remap(dir, "/rust/")),
    );
    // An absolute name in place of this one would lose our source lines in the BTF.
    flags.push(remap(&machine.workspace, ""));
    flags.join(SEPARATOR)
}

fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}/={to}", from.display())
}

#[cfg(test)]
mod tests {
    use super::{Machine, SEPARATOR, encoded};

    #[test]
    fn every_directory_of_the_machine_is_renamed() {
        let machine = Machine {
            workspace: "/a b/overload".into(),
            registries: vec![
                "/c/registry/src/index-1".into(),
                "/c/registry/src/index-2".into(),
            ],
            library_sources: vec!["/usr/lib/rust".into()],
        };
        let encoded = encoded(&machine);
        let flags: Vec<&str> = encoded.split(SEPARATOR).collect();
        assert_eq!(
            flags,
            [
                "-C",
                "target-cpu=v3",
                "-C",
                "target-feature=+allows-misaligned-mem-access",
                "-C",
                "debuginfo=2",
                "-C",
                "link-arg=--btf",
                "--remap-path-prefix=/c/registry/src/index-1/=/registry/",
                "--remap-path-prefix=/c/registry/src/index-2/=/registry/",
                "--remap-path-prefix=/usr/lib/rust/=/rust/",
                "--remap-path-prefix=/a b/overload/=",
            ]
        );
    }
}
