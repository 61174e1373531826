//! The first bytes of the payload: a request to judge, or something that passes at once.

use aya_ebpf::{helpers::generated::bpf_xdp_load_bytes, programs::XdpContext};
use overload_common::{
    abi::Reason,
    sip::{Method, MethodName},
};

use super::frame::Frame;
use crate::{
    kernel::opaque,
    scratch::{SCAN_MAX, Work, set},
};

/// A request that needs its headers read.
pub struct Request {
    /// Its method: one of the six, or ACK.
    pub name: MethodName,
    /// Leading line ends that are skipped (RFC 3261 7.5).
    pub skip: u32,
}

const CRLF: u32 = 0x0a0d;
const CRLF_CRLF: u32 = 0x0a0d_0a0d;
const SIP_SLASH: u64 = u32::from_le_bytes(*b"SIP/") as u64;
const SIP_2_0: u64 = u64::from_le_bytes(*b"SIP/2.0 ");
const STUN_COOKIE: u32 = u32::from_le_bytes([0x21, 0x12, 0xa4, 0x42]);

/// Tells requests to judge from everything else, without reading headers.
#[inline(always)]
pub fn classify(frame: &Frame) -> Result<Request, Reason> {
    let start = frame.payload;
    if frame.payload_length < 16 || start + 16 > frame.end {
        return Err(short(frame));
    }
    // SAFETY: sixteen bytes are within the packet.
    let (mut first, mut second) = unsafe {
        (
            (start as *const u64).read_unaligned(),
            ((start + 8) as *const u64).read_unaligned(),
        )
    };
    if first & 0xffff_ffff == SIP_SLASH {
        return Err(response(first, second));
    }
    let mut skip = 0;
    if first as u32 & 0xffff == CRLF {
        skip = if first as u32 == CRLF_CRLF { 4 } else { 2 };
        if frame.payload_length < 20 || start + 20 > frame.end {
            return Err(Reason::Keepalive);
        }
        let at = start + skip as usize;
        // SAFETY: twenty bytes are within the packet, and at most four are skipped.
        unsafe {
            first = (at as *const u64).read_unaligned();
            second = ((at + 8) as *const u64).read_unaligned();
        }
    }
    let Some(name) = Method::from_start(first, second) else {
        return Err(foreign(first, frame.payload_length));
    };
    if name.method() >= CANCEL {
        return Err(if name.method() == CANCEL {
            Reason::Cancel
        } else {
            Reason::OtherMethod
        });
    }
    Ok(Request { name, skip })
}

const CANCEL: u32 = Method::Cancel as u32;

/// Too short for any SIP message.
#[inline(always)]
fn short(frame: &Frame) -> Reason {
    if frame.payload_length == 0 || frame.payload + 1 > frame.end {
        return Reason::Keepalive;
    }
    // SAFETY: one byte is within the packet.
    match unsafe { (frame.payload as *const u8).read() } {
        0 | b'\r' | b'\n' | b' ' => Reason::Keepalive,
        _ => Reason::Unrecognised,
    }
}

#[inline(always)]
fn response(first: u64, second: u64) -> Reason {
    if first != SIP_2_0 {
        return Reason::ResponseOther;
    }
    match second as u8 {
        b'1' => Reason::Response1xx,
        b'2' => Reason::Response2xx,
        b'3' => Reason::Response3xx,
        b'4' => Reason::Response4xx,
        b'5' => Reason::Response5xx,
        b'6' => Reason::Response6xx,
        _ => Reason::ResponseOther,
    }
}

/// Longest datagram that is taken for a keep-alive, bytes.
const KEEPALIVE_MAX: u32 = 64;

#[inline(always)]
fn foreign(first: u64, length: u32) -> Reason {
    if first as u8 & 0xc0 == 0 && (first >> 32) as u32 == STUN_COOKIE {
        return Reason::Stun;
    }
    match first as u8 {
        0 | b'\r' | b'\n' | b' ' if length <= KEEPALIVE_MAX => Reason::Keepalive,
        _ => Reason::Unrecognised,
    }
}

/// Copies the request to scratch once; all later stages read the copy.
#[inline(always)]
pub fn copy(ctx: &XdpContext, work: Work, frame: &Frame, request: &Request) -> Result<(), Reason> {
    let offset = frame.offset() + request.skip;
    let length = frame.payload_length - request.skip;
    let scanned = if length > SCAN_MAX { SCAN_MAX } else { length };
    // 6.1 learns nothing from `!= 0`: the length is one more than a masked number.
    let bounded = (opaque(scanned.wrapping_sub(1)) & 4095) + 1;
    // SAFETY: at most 4,096 bytes into a buffer of 4,160.
    let failed = unsafe { bpf_xdp_load_bytes(ctx.ctx, offset, work.bytes().cast(), bounded) };
    if failed != 0 {
        return Err(Reason::BadLength);
    }
    // The scan reads whole blocks: nothing of the packet before may stand behind this one.
    work.clear(bounded);
    set!(work, frame.mode as u32, meta.mode);
    set!(work, frame.length, meta.frame);
    set!(work, frame.ip(), meta.ip);
    set!(work, length, meta.length);
    let ([source, destination], ports) = (frame.addresses(), frame.ports());
    for half in 0..2 {
        set!(work, source[half], meta.source[half]);
        set!(work, destination[half], meta.destination[half]);
        set!(work, ports[half], meta.ports[half]);
    }
    set!(work, request.name.method(), meta.method);
    set!(work, request.name.length(), meta.method_length);
    Ok(())
}
