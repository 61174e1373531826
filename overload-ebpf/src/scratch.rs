//! Per-CPU working memory of one packet. A program is not preempted by another packet on its CPU, so
//! no value outlives the packet and none is shared.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use overload_common::sip::swar;

use crate::{kernel::opaque_word, maps::SCRATCH};

/// Longest header section that is scanned, bytes.
pub const SCAN_MAX: u32 = 4032;
/// Lines that are scanned at least: the request line, 64 header rows, the blank line.
pub const LINES_MAX: u32 = 66;
/// Lines that a reply copies: any row may be one. A power of two.
pub const SEGMENTS_MAX: usize = 64;
/// Places where a reply differs from the lines it copies: three, and one that ends the list.
pub const EDITS_MAX: usize = 4;

/// Pieces of a reply: the copied lines, each addition, and what it splits; a power of two.
pub const PIECES_MAX: usize = 128;
const _: () = assert!(PIECES_MAX >= SEGMENTS_MAX + 2 * EDITS_MAX);
/// Offset in the scratch of what a reply adds to the copied lines.
pub const ADDED: u32 = core::mem::offset_of!(Scratch, added) as u32;

const BYTES_MASK: u32 = 4095;
const ANY_MASK: u32 = 8191;
const _: () = assert!(size_of::<Scratch>() > ANY_MASK as usize + 64);

/// Working memory; only the kernel program knows it. Whole pages, so that each CPU's begins on one.
#[repr(C, align(4096))]
pub struct Scratch {
    /// The datagram from its request line on.
    bytes: [u8; 4096 + 64],
    /// What a reply adds: rport, received, tag.
    added: [u8; 128],
    /// One bit a byte: line feeds of the header section.
    pub newlines: [u64; 64],
    /// Loop state of a scan: bits left, block, start of the line or item, flags.
    pub walk: Walk,
    /// First row of each header: count above, start (of the value, where a reply copies the header), end
    /// (past its line feed).
    pub headers: [u64; 16],
    /// First of each Via parameter: count above, start, end.
    pub params: [u64; 8],
    /// Lines that a reply copies: start above, end.
    pub segments: [u32; SEGMENTS_MAX],
    /// Sorted edits of a reply.
    pub edits: [u64; EDITS_MAX],
    /// What a reply is put together from: offset in the scratch above, length.
    pub pieces: [u32; PIECES_MAX],
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
    /// Source address, network order in memory; IPv4 as `::ffff:a.b.c.d`.
    pub source: [u64; 2],
    /// Destination address, the same.
    pub destination: [u64; 2],
    /// Source and destination port, host order.
    pub ports: [u32; 2],
    /// Bytes of the frame.
    pub frame: u32,
    /// Offset of the IP header in the frame.
    pub ip: u32,
    /// Bytes of the datagram from its request line on.
    pub length: u32,
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
    /// Where the user or the number of the Request-URI starts; that of an urn is 0.
    pub user_start: u32,
    /// The Request-URI is an emergency service (RFC 5031).
    pub is_sos: u32,
    /// Policy that the packet sees: low half of the generation, and `LOOKUP_*`.
    pub generation: u32,
    pub lookups: u64,
    /// `Class as u32`.
    pub class: u32,
    /// `SOURCE_*` of the sender.
    pub source_flags: u32,
    /// Digits of the called number, and what may be done with them.
    pub number_flags: u32,
    pub number: u64,
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
    /// This CPU's scratch; always there, unless the loader counted too few CPUs.
    #[inline(always)]
    pub fn here() -> Option<Self> {
        // SAFETY: a helper without arguments.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        SCRATCH.get_ptr_mut(cpu).map(Self)
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

    /// 64 bytes of the datagram.
    #[inline(always)]
    pub fn block(self, at: u32) -> Block {
        // SAFETY: the mask keeps the start within `bytes`.
        Block(unsafe {
            (&raw const (*self.0).bytes)
                .cast::<u8>()
                .add((at & BYTES_MASK) as usize)
        })
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

    /// 64 bytes from an offset in the scratch itself, below 8,192.
    #[inline(always)]
    pub fn any_block(self, at: u32) -> Block {
        // SAFETY: the scratch is longer than the mask by more than 64 bytes.
        Block(unsafe { self.0.cast::<u8>().add((at & ANY_MASK) as usize) })
    }

    /// Start of the added text.
    #[inline(always)]
    pub fn added(self) -> *mut u8 {
        // SAFETY: a field of live map memory.
        unsafe { (&raw mut (*self.0).added).cast() }
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

/// 64 bytes of the datagram, checked once.
#[derive(Clone, Copy)]
pub struct Block(*const u8);

impl Block {
    /// Word number `index`, of eight.
    #[inline(always)]
    pub fn word(self, index: u32) -> u64 {
        // SAFETY: the mask of the start leaves 64 bytes behind it.
        unsafe {
            self.0
                .add((index as usize & 7) * 8)
                .cast::<u64>()
                .read_unaligned()
        }
    }

    /// A bit for each byte, the first byte lowest: set where `unequal`, given the bytes in words of eight,
    /// leaves the byte's high bit clear.
    #[inline(always)]
    pub fn marks(self, unequal: impl Fn(u64) -> u64) -> u64 {
        // One mask in a register: LLVM would make another constant of it for each shift.
        let high = opaque_word(swar::HIGH);
        let mut columns = 0;
        for index in 0..8 {
            columns = columns >> 1 | unequal(self.word(index)) & high;
        }
        !swar::transpose(columns)
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
