//! The packets of the benchmark.

use std::net::Ipv6Addr;

/// Bytes of every message, unless its name says otherwise.
pub const MESSAGE: usize = 741;
/// Bytes of a frame that carries it.
pub const FRAME: usize = HEADERS + MESSAGE;
/// Distinct packets there are.
pub const DISTINCT: u32 = 102_400;

/// Bytes before the message: Ethernet, IPv4 and UDP.
pub const HEADERS: usize = 42;
/// As in the lab of the end-to-end tests.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
/// The protected host's.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x01];
const CLIENT: [u8; 4] = [192, 0, 2, 10];
const HOST: [u8; 4] = [192, 0, 2, 1];
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// Where the filter protects.
pub const PORT: u16 = 5060;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// The host of the Request-URI.
pub const DESTINATION: &str = "gw1.example.net";
const BRANCH: &str = "branch=z9hG4bK";
const CALL_ID: &str = "Call-ID: ";

/// An INVITE with SDP, of [`MESSAGE`] bytes. Users, tag, branch and Call-ID differ by `number`; branch
/// and Call-ID also begin with eight digits that a test replaces.
pub fn invite(number: u32) -> String {
    padded(&start_line(number), &headers(number, "", "INVITE"))
}

/// The same within a dialog: To has a tag.
pub fn invite_in_dialog() -> String {
    padded(&start_line(0), &headers(0, ";tag=9c4e1a07", "INVITE"))
}

/// A request that is not judged.
pub fn bye() -> String {
    let line = start_line(0).replacen("INVITE", "BYE", 1);
    padded(&line, &headers(0, ";tag=9c4e1a07", "BYE"))
}

/// A success response.
pub fn response() -> String {
    padded("SIP/2.0 200 OK", &headers(0, ";tag=9c4e1a07", "INVITE"))
}

/// The ACK to the answer whose To header this is; as short as a client sends it.
pub fn ack(number: u32, to: &str) -> String {
    let invite = invite(number);
    let mut message = start_line(number).replacen("INVITE", "ACK", 1);
    for line in invite.lines().skip(1).take(6) {
        message += "\r\n";
        message += match line.split_once(": ") {
            Some(("To", _)) => to,
            Some(("CSeq", _)) => "CSeq: 1 ACK",
            _ => line,
        };
    }
    message + "\r\nContent-Length: 0\r\n\r\n"
}

fn start_line(number: u32) -> String {
    format!("INVITE sip:+1555{number:07}@{DESTINATION} SIP/2.0")
}

fn headers(number: u32, to_tag: &str, method: &str) -> String {
    let tag = number.wrapping_mul(0x9e37_79b1);
    format!(
        "Via: SIP/2.0/UDP 192.0.2.10:5060;{BRANCH}00000000{tag:08x};rport\r\n\
         Max-Forwards: 70\r\n\
         From: \"Alice\" <sip:+1444{number:07}@client.example.org>;tag={tag:08x}\r\n\
         To: <sip:+1555{number:07}@{DESTINATION}>{to_tag}\r\n\
         {CALL_ID}00000000-{tag:08x}@192.0.2.10\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:+1444{number:07}@192.0.2.10:5060>\r\n\
         Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n\
         User-Agent: Example/1.0\r\n\
         Content-Type: application/sdp\r\n"
    )
}

/// The message with a body that makes it [`MESSAGE`] bytes long.
fn padded(start_line: &str, headers: &str) -> String {
    const SDP: &str = "o=alice 2890844526 2890844526 IN IP4 192.0.2.10\r\n\
                       c=IN IP4 192.0.2.10\r\nt=0 0\r\n\
                       m=audio 49170 RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\n\
                       a=rtpmap:101 telephone-event/8000\r\n";
    const REST: &str = "Content-Length: 000\r\n\r\nv=0\r\ns=\r\n";
    let used = start_line.len() + 2 + headers.len() + REST.len() + SDP.len();
    let name = "-".repeat(MESSAGE.saturating_sub(used));
    let (origin, media) = SDP.split_at(SDP.find("c=").unwrap_or_default());
    let body = format!("v=0\r\n{origin}s={name}\r\n{media}");
    format!(
        "{start_line}\r\n{headers}Content-Length: {:03}\r\n\r\n{body}",
        body.len()
    )
}

/// Where the replaceable digits of branch and Call-ID stand in an [`invite`]'s frame.
pub fn digits(message: &str) -> Option<[u32; 2]> {
    let after = |name: &str| {
        message
            .find(name)
            .map(|at| (HEADERS + at + name.len()) as u32)
    };
    Some([after(BRANCH)?, after(CALL_ID)?])
}

/// The datagram in its frame, from the client to the protected port.
pub fn frame(payload: &str) -> Vec<u8> {
    encapsulate(payload, UDP, PORT)
}

/// The same bytes to another port.
pub fn frame_to_other_port(payload: &str) -> Vec<u8> {
    encapsulate(payload, UDP, PORT + 2)
}

/// The same bytes as TCP.
pub fn frame_of_tcp(payload: &str) -> Vec<u8> {
    encapsulate(payload, TCP, PORT)
}

/// The same datagram over IPv6.
pub fn frame_v6(payload: &str) -> Vec<u8> {
    let udp = (8 + payload.len()) as u16;
    let mut frame = Vec::new();
    frame.extend(HOST_MAC);
    frame.extend(CLIENT_MAC);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(udp.to_be_bytes());
    frame.extend([UDP, 64]);
    frame.extend(CLIENT_V6.octets());
    frame.extend(HOST_V6.octets());
    frame.extend(PORT.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload.as_bytes());
    frame
}

/// A frame with a VLAN tag.
pub fn tagged(frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    [addresses, &[0x81, 0x00, 0x00, 0x05], rest].concat()
}

fn encapsulate(payload: &str, protocol: u8, port: u16) -> Vec<u8> {
    let udp = (8 + payload.len()) as u16;
    let mut frame = Vec::with_capacity(HEADERS + payload.len());
    frame.extend(HOST_MAC);
    frame.extend(CLIENT_MAC);
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((20 + udp).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend(CLIENT);
    frame.extend(HOST);
    frame.extend(PORT.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::{
        BRANCH, CALL_ID, FRAME, MESSAGE, ack, bye, digits, frame, invite, invite_in_dialog,
        response,
    };

    #[test]
    fn messages_have_the_size_they_are_measured_by() {
        for message in [
            invite(0),
            invite(102_399),
            invite_in_dialog(),
            bye(),
            response(),
        ] {
            assert_eq!(message.len(), MESSAGE, "{message}");
            let (head, body) = message.split_once("\r\n\r\n").expect("headers end");
            let length = head.rsplit_once("Content-Length: ").expect("a length").1;
            assert_eq!(length.parse(), Ok(body.len()));
        }
        assert_eq!(frame(&invite(7)).len(), FRAME);
    }

    #[test]
    fn digits_are_where_the_driver_writes_them() {
        let message = invite(1);
        let frame = frame(&message);
        for (at, name) in digits(&message)
            .expect("both are there")
            .into_iter()
            .zip([BRANCH, CALL_ID])
        {
            let at = at as usize;
            assert_eq!(&frame[at - name.len()..at], name.as_bytes());
            assert_eq!(&frame[at..at + 8], b"00000000");
        }
    }

    #[test]
    fn ack_repeats_the_transaction() {
        let ack = ack(3, "To: <sip:a@example.net>;tag=x");
        assert!(ack.starts_with("ACK sip:+15550000003@"), "{ack}");
        assert!(ack.contains("\r\nTo: <sip:a@example.net>;tag=x\r\n"));
        assert!(ack.contains("\r\nCSeq: 1 ACK\r\n"));
        let via = |message: &str| message.lines().nth(1).map(str::to_owned);
        assert_eq!(via(&ack), via(&invite(3)));
    }
}
