//! Puts the program on an interface, or says in one sentence why not.

use std::{io, net::IpAddr, os::fd::BorrowedFd};

use aya::programs::{ProgramInfo, loaded_programs};
use thiserror::Error;

use super::{
    interface::{AttachMode, AttachedProgram, Interface},
    link::{Link, LinkInfo, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE},
    protect::left_out,
};
use crate::config::Attach;

/// Why the program is not on the interface.
#[derive(Debug, Error)]
pub enum AttachError {
    /// Another XDP program is there.
    #[error(
        "interface {interface} is busy: XDP program `{program}` (id {id}) is attached in {} mode; end what owns it ({}), or try: ip link set dev {interface} {} off", mode.name(), owner(program), ip_link_word(*mode)
    )]
    Busy {
        /// The interface.
        interface: String,
        /// Name of the program that is there.
        program: String,
        /// The kernel's number of it.
        id: u32,
        /// Where it runs.
        mode: AttachMode,
    },
    /// The driver has no XDP.
    #[error(
        "the driver of interface {0} cannot run XDP programs; write attach = \"generic\" or \"auto\" in its [[interface]] table"
    )]
    NativeUnsupported(String),
    /// The driver cannot hold such packets in one piece.
    #[error(
        "the driver of interface {interface} refuses an XDP program at MTU {mtu}, or at that of a veth's other end; lower the MTU (3498 fits most drivers, 1500 all), or write attach = \"generic\" or \"auto\""
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU, bytes.
        mtu: u32,
    },
    /// Anything else.
    #[error(
        "the kernel refused the program on interface {interface}: {source}; see `dmesg` for the driver's reason"
    )]
    Refused {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The link is of another network namespace.
    #[error(
        "this instance is attached to {wanted} (number {found}) of another network namespace; run this there, or choose another instance name"
    )]
    OtherNamespace {
        /// Number of the interface it is on.
        found: u32,
        /// The interface of this namespace with that number.
        wanted: String,
    },
    /// A link keeps its mode.
    #[error(
        "the filter is attached to {interface} in {} mode; to change the mode, end it with `overload-ctl detach` first", found.name()
    )]
    OtherMode {
        /// The interface.
        interface: String,
        /// Mode it is in.
        found: AttachMode,
    },
}

/// The word of `ip link` for a mode.
const fn ip_link_word(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::Native => "xdpdrv",
        AttachMode::Generic => "xdpgeneric",
    }
}

/// What the operator should know of a successful start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Notice {
    /// `auto` did not get native mode.
    #[error("{interface} is in generic mode, because native mode failed: {reason}")]
    FellBack {
        /// The interface.
        interface: String,
        /// Why not native.
        reason: String,
    },
    /// Replies may vanish.
    #[error(
        "{0} is a veth: in native mode its replies arrive only if the other end has an XDP program too, or use attach = \"generic\""
    )]
    VethPeer(String),
    /// There is nothing to protect.
    #[error("{0} has no address yet: nothing on it is judged until it gets one")]
    NoAddress(String),
    /// More addresses than the filter compares.
    #[error("{}", left_out(interface, addresses))]
    LeftOut {
        /// The interface.
        interface: String,
        /// Those not protected.
        addresses: Vec<IpAddr>,
    },
    /// VLAN tags are taken off before the filter.
    #[error(
        "{interface} takes VLAN tags off before the filter sees them, so answers to requests for {vlans} would leave untagged; keep the tags: ethtool -K {interface} rxvlan off"
    )]
    HiddenTags {
        /// The interface.
        interface: String,
        /// Its VLAN interfaces.
        vlans: String,
    },
    /// An interface is no longer configured.
    #[error("{0} is no longer configured: the filter is off it")]
    Released(String),
    /// An earlier run's filter was there.
    #[error(
        "took over without a gap from the filter that an earlier run left on {0}; its counters and its memory of transactions go on"
    )]
    TookOver(String),
    /// The same, but of another version.
    #[error(
        "took over without a gap from the filter that another version left on {interface}; counters start anew, copies of recent requests are judged again, and ACKs to its last refusals reach the host ({reason})"
    )]
    Replaced {
        /// The interface.
        interface: String,
        /// Why its maps cannot be used.
        reason: String,
    },
}

/// Attaches the program to an interface that has none of ours.
pub fn attach(
    program: BorrowedFd<'_>,
    interface: &Interface,
    wanted: Attach,
    notices: &mut Vec<Notice>,
) -> Result<(Link, AttachMode), AttachError> {
    if wanted != Attach::Generic {
        match Link::create(program, interface.index, XDP_FLAGS_DRV_MODE) {
            Ok(link) => {
                if interface.is_veth {
                    notices.push(Notice::VethPeer(interface.name.clone()));
                }
                return Ok((link, AttachMode::Native));
            }
            Err(source) => {
                let error = explain(source, interface);
                if wanted == Attach::Native || matches!(error, AttachError::Busy { .. }) {
                    return Err(error);
                }
                notices.push(Notice::FellBack {
                    interface: interface.name.clone(),
                    reason: error.to_string(),
                });
            }
        }
    }
    Link::create(program, interface.index, XDP_FLAGS_SKB_MODE)
        .map(|link| (link, AttachMode::Generic))
        .map_err(|source| explain(source, interface))
}

/// Whether the program can be put in the place of the one that `link` attached.
pub fn check_takeover(
    link: LinkInfo,
    interface: &Interface,
    wanted: Attach,
) -> Result<AttachMode, AttachError> {
    let ours = interface
        .program
        .filter(|p| link.ifindex == interface.index && p.id == link.program_id);
    let Some(AttachedProgram { mode, .. }) = ours else {
        return Err(AttachError::OtherNamespace {
            found: link.ifindex,
            wanted: interface.name.clone(),
        });
    };
    match (wanted, mode) {
        (Attach::Auto, _)
        | (Attach::Native, AttachMode::Native)
        | (Attach::Generic, AttachMode::Generic) => Ok(mode),
        (_, found) => Err(AttachError::OtherMode {
            interface: interface.name.clone(),
            found,
        }),
    }
}

/// The sentence for an error of the kernel or the driver.
fn explain(source: io::Error, interface: &Interface) -> AttachError {
    let name = interface.name.clone();
    match (source.raw_os_error(), interface.program) {
        // EEXIST: a program in the other mode.
        (Some(libc::EBUSY | libc::EEXIST), Some(AttachedProgram { mode, id })) => {
            AttachError::Busy {
                interface: name,
                program: program_name(id),
                id,
                mode,
            }
        }
        (Some(libc::EOPNOTSUPP), _) => AttachError::NativeUnsupported(name),
        // Drivers disagree on the number.
        (Some(libc::ERANGE), _) => AttachError::MtuTooLarge {
            interface: name,
            mtu: interface.mtu,
        },
        (Some(libc::EINVAL), _) if interface.mtu > 1500 => AttachError::MtuTooLarge {
            interface: name,
            mtu: interface.mtu,
        },
        _ => AttachError::Refused {
            interface: name,
            source,
        },
    }
}

/// What to end; the kernel keeps fifteen bytes of a program's name.
fn owner(program: &str) -> &'static str {
    if program.starts_with("overload_") {
        "another instance: overload-ctl detach --instance NAME"
    } else {
        "its own command"
    }
}

/// The loaded program with this number.
pub fn program_info(id: u32) -> Option<ProgramInfo> {
    loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id)
}

fn program_name(id: u32) -> String {
    program_info(id)
        .and_then(|program| program.name_as_str().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::Mac;

    fn interface(mtu: u32, program: Option<AttachedProgram>) -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index: 9,
            mac: Mac([2; 6]),
            mtu,
            is_veth: false,
            vlans: Vec::new(),
            addresses: Vec::new(),
            program,
        }
    }

    #[test]
    fn each_refusal_is_one_sentence_with_its_remedy() {
        let explain = |errno, mtu| {
            explain(io::Error::from_raw_os_error(errno), &interface(mtu, None)).to_string()
        };
        assert_eq!(
            explain(libc::EOPNOTSUPP, 1500),
            "the driver of interface eth0 cannot run XDP programs; write attach = \"generic\" or \"auto\" in its [[interface]] table"
        );
        let busy = AttachError::Busy {
            interface: "eth0".to_owned(),
            program: "foreign".to_owned(),
            id: 12,
            mode: AttachMode::Generic,
        };
        assert_eq!(
            busy.to_string(),
            "interface eth0 is busy: XDP program `foreign` (id 12) is attached in generic mode; end what owns it (its own command), or try: ip link set dev eth0 xdpgeneric off"
        );
        let too_large = "the driver of interface eth0 refuses an XDP program at MTU 9000, or at that of a veth's other end; lower the MTU (3498 fits most drivers, 1500 all), or write attach = \"generic\" or \"auto\"";
        assert_eq!(explain(libc::ERANGE, 9000), too_large);
        assert_eq!(explain(libc::EINVAL, 9000), too_large);
        assert_eq!(
            explain(libc::EINVAL, 1500),
            "the kernel refused the program on interface eth0: Invalid argument (os error 22); see `dmesg` for the driver's reason"
        );
    }

    #[test]
    fn a_takeover_keeps_interface_and_mode() {
        let link = LinkInfo {
            program_id: 5,
            ifindex: 9,
        };
        let on = |id, mode| interface(1500, Some(AttachedProgram { mode, id }));
        let native = on(5, AttachMode::Native);
        let generic = on(5, AttachMode::Generic);
        for (interface, wanted, mode) in [
            (&native, Attach::Native, AttachMode::Native),
            (&native, Attach::Auto, AttachMode::Native),
            (&generic, Attach::Auto, AttachMode::Generic),
            (&generic, Attach::Generic, AttachMode::Generic),
        ] {
            let found = check_takeover(link, interface, wanted).expect("allowed");
            assert_eq!(found, mode);
        }
        for (interface, wanted) in [(&native, Attach::Generic), (&generic, Attach::Native)] {
            let error = check_takeover(link, interface, wanted).expect_err("other mode");
            assert!(matches!(error, AttachError::OtherMode { .. }), "{error}");
        }
        let foreign = on(6, AttachMode::Native);
        let elsewhere = LinkInfo { ifindex: 8, ..link };
        for (link, interface) in [(link, &foreign), (elsewhere, &native)] {
            let error = check_takeover(link, interface, Attach::Native).expect_err("not ours");
            assert!(
                matches!(error, AttachError::OtherNamespace { .. }),
                "{error}"
            );
        }
    }
}
