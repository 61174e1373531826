//! What is set once per instance, per interface, and per key epoch.

/// Layout version of everything in [`crate::abi`]; raised by any change of a map's shape.
pub const SCHEMA: u64 = 3;

/// Protected addresses of one interface, compared inline.
pub const MAX_ADDRESSES: usize = 8;

/// MAC addresses one interface answers for.
pub const MAX_MACS: usize = 4;

/// The one record of map `INSTANCE`. The controller writes single words through a memory map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceRecord {
    /// [`SCHEMA`] of the writer; written last when an instance is created.
    pub schema: u64,
    /// Generation of the destination table that packets see.
    pub generation: u64,
    /// Key epoch of new tags, 0 or 1.
    pub key_epoch: u64,
    /// Random identity of this host in tags, fixed for the life of the instance.
    pub host_id: u64,
    /// Clock of tests and replay, ns; read only by a program loaded with the map clock.
    pub map_clock_ns: u64,
    /// What the rules in force need to be looked up: `LOOKUP_*`. Written before a generation that needs
    /// more, and after one that needs less.
    pub lookups: u64,
    /// [`super::Class`] of each [`crate::sip::Method`], a byte each, the first method lowest; 255 passes the
    /// method without judging it.
    pub method_classes: u64,
    /// Replies to a source prefix that is not proven: period and tolerance, ticks; a period of 0 sends none.
    pub reply_period_ticks: u64,
    /// See `reply_period_ticks`.
    pub reply_tolerance_ticks: u64,
    /// Emergency requests of a source prefix that use the reserved share: period and tolerance, ticks.
    pub emergency_period_ticks: u64,
    /// See `emergency_period_ticks`.
    pub emergency_tolerance_ticks: u64,
    /// Reserved, zero.
    pub reserved: [u64; 5],
}
const _: () = assert!(size_of::<InstanceRecord>() == 128);

/// [`InstanceRecord::lookups`]: map `SOURCES` has entries.
pub const LOOKUP_SOURCES: u64 = 1;
/// Bit of the shortest prefix of a number that map `DESTINATIONS` has; a prefix of `n` digits has the bit
/// `n - 1` further up.
pub const LOOKUP_PREFIXES_SHIFT: u32 = 16;
/// [`InstanceRecord::lookups`]: map `DESTINATIONS` has emergency numbers.
pub const LOOKUP_EMERGENCY: u64 = 2;

/// Normal for the six methods that are judged: what [`InstanceRecord::method_classes`] is without configuration.
pub const METHOD_CLASSES_DEFAULT: u64 = 0x0202_0202_0202;
/// [`InstanceRecord::method_classes`] of a method that is not judged.
pub const METHOD_PASSES: u64 = 0xff;

/// What a filter does with its verdicts on one interface.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Everything passes, nothing is judged. Also the meaning of zeroed memory: fail open.
    Bypass = 0,
    /// Judged and counted, but every packet passes.
    Shadow = 1,
    /// Verdicts are carried out.
    Enforce = 2,
}

impl Mode {
    /// The mode of a raw word; an unknown word is [`Mode::Bypass`].
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            2 => Self::Enforce,
            1 => Self::Shadow,
            _ => Self::Bypass,
        }
    }

    /// Name in configuration, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}

/// One entry of map `INTERFACES`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceRecord {
    /// [`Mode`] as a raw word.
    pub mode: u32,
    /// Used entries of `addresses`.
    pub address_count: u32,
    /// Protected addresses, network order, IPv4 as `::ffff:a.b.c.d`.
    pub addresses: [[u8; 16]; MAX_ADDRESSES],
    /// Own MAC addresses in the low six bytes (first byte lowest); unused entries repeat the first.
    pub macs: [u64; MAX_MACS],
    /// Largest frame that may leave, bytes with the Ethernet header.
    pub max_frame: u32,
    /// Kernel's index of the interface.
    pub ifindex: u32,
}
const _: () = assert!(size_of::<InterfaceRecord>() == 8 + 128 + 32 + 8);
const _: () = assert!(core::mem::offset_of!(InterfaceRecord, macs) == 136);

/// One 128-bit key of map `KEYS`; the map is readable by root only and never printed.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyRecord {
    /// First half.
    pub k0: u64,
    /// Second half.
    pub k1: u64,
}
const _: () = assert!(size_of::<KeyRecord>() == 16);

impl core::fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyRecord(..)")
    }
}

/// Index in `KEYS` of the To-tag key of epoch 0.
pub const KEY_TAG_EPOCH_0: u32 = 0;
/// Index in `KEYS` of the To-tag key of epoch 1.
pub const KEY_TAG_EPOCH_1: u32 = 1;
/// Index in `KEYS` of the key of both transaction tables, fixed for the life of the instance.
pub const KEY_TRANSACTION: u32 = 2;
/// Index in `KEYS` of the key of host names, fixed for the life of the instance.
pub const KEY_URI: u32 = 3;
