//! Per-CPU working memory of one packet. A program is not preempted by another packet on its CPU, so
//! no value outlives the packet and none is shared.

use crate::{kernel::opaque_word, maps::SCRATCH};

/// Longest header section that is scanned, bytes.
pub const SCAN_MAX: u32 = 4032;
/// Header lines that are scanned.
pub const LINES_MAX: u32 = 64;
/// Pieces of copied headers a reply is built from.
pub const SEGMENTS_MAX: usize = 16;
/// Places where a reply differs from the lines it copies: three, and one that ends the list.
pub const EDITS_MAX: usize = 4;

const BYTES_MASK: u32 = 4095;

/// Working memory; only the kernel program knows it.
#[repr(C)]
pub struct Scratch {
    /// The datagram from its request line on.
    bytes: [u8; 4096 + 64],
    /// One bit a byte: line feeds of the header section.
    pub newlines: [u64; 64],
    /// Loop state of a scan: bits left, block, start of the line or item, flags.
    pub walk: Walk,
    /// First row of each header: count above, start, end (past its line feed).
    pub headers: [u64; 16],
    /// First of each Via parameter: count above, start, end.
    pub params: [u64; 8],
    /// Copied pieces of the header section: start above, end.
    pub segments: [u32; SEGMENTS_MAX],
    /// Sorted edits of a reply.
    pub edits: [u64; EDITS_MAX],
    /// What is known of the packet.
    pub meta: Meta,
    /// The reply, from its Ethernet header on.
    out: [u8; 8192 + 64],
}

/// Loop state kept in memory, so that the verifier forgets it between passes.
#[repr(C)]
pub struct Walk {
    pub bits: u64,
    pub header: u64,
    pub block: u32,
    pub number: u32,
    pub start: u32,
    pub segments: u32,
    pub state: u32,
    pub cursor: u32,
}

/// What later stages read of the packet.
#[repr(C)]
pub struct Meta {
    /// Offset of the request line in the frame.
    pub payload: u32,
    /// Bytes of the datagram from its request line on.
    pub length: u32,
    /// Source address, network order in memory.
    pub source: u32,
    /// Destination address, network order in memory.
    pub destination: u32,
    /// Source port, host order.
    pub source_port: u32,
    /// Line feed that ends the request line.
    pub request_line: u32,
    /// `Mode as u32` of the interface.
    pub mode: u32,
    /// `Method as u32`, and the length of its name.
    pub method: u32,
    pub method_length: u32,
    /// Where the To tag is inserted, or where its value starts.
    pub to_tag: u32,
    /// Top Via: sent-by, and the end of its first value.
    pub sent_by_start: u32,
    pub sent_by_end: u32,
    /// Port of sent-by, or 5060.
    pub sent_by_port: u32,
    /// Where the body starts.
    pub body: u32,
    pub via_end: u32,
    pub branch_start: u32,
    pub branch_end: u32,
    pub call_id_start: u32,
    pub call_id_end: u32,
    pub cseq: u32,
    /// Where the host of the Request-URI starts; 0 when the scheme has none.
    pub host_start: u32,
    /// Keyed hashes of the transaction, and of source and Request-URI.
    pub transaction: u64,
    pub verify: u64,
    /// Key epoch of the tag.
    pub epoch: u64,
    /// Coarse time of the packet, ns.
    pub now: u64,
}

/// A pointer to this CPU's scratch.
#[derive(Clone, Copy)]
pub struct Work(*mut Scratch);

impl Work {
    /// This CPU's scratch; always there.
    #[inline(always)]
    pub fn here() -> Option<Self> {
        SCRATCH.get_ptr_mut(0).map(Self)
    }

    /// The memory itself.
    #[inline(always)]
    pub fn raw(self) -> *mut Scratch {
        self.0
    }

    /// Eight bytes of the datagram, little-endian.
    #[inline(always)]
    pub fn word(self, at: u32) -> u64 {
        // SAFETY: the mask keeps the read within `bytes`, which is 64 bytes longer than the mask.
        unsafe {
            (&raw const (*self.0).bytes)
                .cast::<u8>()
                .add((at & BYTES_MASK) as usize)
                .cast::<u64>()
                .read_unaligned()
        }
    }

    /// One byte of the datagram.
    #[inline(always)]
    pub fn byte(self, at: u32) -> u8 {
        // SAFETY: the mask keeps the read within `bytes`.
        unsafe {
            (&raw const (*self.0).bytes)
                .cast::<u8>()
                .add((at & BYTES_MASK) as usize)
                .read()
        }
    }

    /// Zeroes 64 bytes from `at` on.
    #[inline(always)]
    pub fn clear(self, at: u32) {
        // A zero the compiler does not know for one, lest the loop become a slow memset.
        let zero = opaque_word(0);
        for word in 0..8 {
            // SAFETY: the mask and 64 bytes keep the write within `bytes`.
            unsafe {
                self.bytes()
                    .add((at & BYTES_MASK) as usize + word * 8)
                    .cast::<u64>()
                    .write_unaligned(zero);
            }
        }
    }

    /// Start of the reply.
    #[inline(always)]
    pub fn out(self) -> *mut u8 {
        // SAFETY: a field of live map memory.
        unsafe { (&raw mut (*self.0).out).cast() }
    }

    /// Start of the datagram's copy.
    #[inline(always)]
    pub fn bytes(self) -> *mut u8 {
        // SAFETY: a field of live map memory.
        unsafe { (&raw mut (*self.0).bytes).cast() }
    }
}

/// Reads a field of the scratch as memory the verifier knows nothing of.
macro_rules! get {
    ($work:expr, $($field:tt)+) => {{
        // SAFETY: a field of live per-CPU map memory.
        unsafe { (&raw const (*$work.raw()).$($field)+).read_volatile() }
    }};
}

/// Writes a field of the scratch.
macro_rules! set {
    ($work:expr, $value:expr, $($field:tt)+) => {{
        let value = $value;
        // SAFETY: a field of live per-CPU map memory.
        unsafe { (&raw mut (*$work.raw()).$($field)+).write_volatile(value) }
    }};
}

pub(crate) use {get, set};
