//! Pieces of generated messages: names, URIs, addresses, Via values.

use super::Random;

/// Characters of RFC 3261 25.1 `token`.
const TOKEN: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
/// The rarer ones.
const RARE_TOKEN: &[u8] = b"-.!%*_+`'~";

/// Values of From and To in which a quote or a bracket stays open, or is closed alone.
pub const OPEN_ADDRESSES: &[&str] = &[
    "\"open <sip:a@h>",
    "<sip:a@h",
    "sip:a@h>",
    "\"a\\\" <sip:a@h>",
    "<sip:a@h>;x=\"",
];

/// A token of one to `most` characters.
pub fn token(random: &mut Random, most: usize) -> String {
    let rare = random.one_in(20);
    (0..=random.below(most))
        .map(|place| match place {
            1 if rare => char::from(RARE_TOKEN[random.below(RARE_TOKEN.len())]),
            _ => char::from(TOKEN[random.below(TOKEN.len())]),
        })
        .collect()
}

/// A name as anyone may write it.
pub fn spell(name: &str, random: &mut Random) -> String {
    match random.below(8) {
        0 => name.to_uppercase(),
        1 => name
            .chars()
            .map(|letter| {
                if random.one_in(2) {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// A header's name, long or compact, in any case.
pub fn header_name(name: &str, random: &mut Random) -> String {
    let (usual, compact) = match name {
        "via" => ("Via", "v"),
        "from" => ("From", "f"),
        "to" => ("To", "t"),
        "call-id" => ("Call-ID", "i"),
        "cseq" => ("CSeq", "cseq"),
        "max-forwards" => ("Max-Forwards", "max-forwards"),
        "content-length" => ("Content-Length", "l"),
        "event" => ("Event", "o"),
        other => (other, other),
    };
    match random.below(5) {
        0 => spell(compact, random),
        1 => spell(name, random),
        _ => usual.to_owned(),
    }
}

/// A colon with blanks around it; only behind it a line may end (RFC 3261 7.3.1).
pub fn colon(random: &mut Random) -> &'static str {
    match random.below(10) {
        0 => random.pick(&[":", " :", "\t:", "  : ", " \t :\t", ":  "]),
        1 => random.pick(&[":\r\n ", ":\r\n\t", ": \r\n ", " :\r\n  "]),
        _ => ": ",
    }
}

/// A host: name, IPv4 or IPv6 address.
pub fn host(random: &mut Random) -> String {
    match random.below(6) {
        0 => format!("192.0.2.{}", random.below(256)),
        1 => format!(
            "[2001:db8::{:x}:{:x}]",
            random.below(65_536),
            random.below(65_536)
        ),
        2 => random
            .pick(&[
                "[::ffff:192.0.2.10]",
                "[2001:DB8::9]",
                "localhost",
                "a-b.example.org.",
            ])
            .to_owned(),
        _ => format!(
            "{}.example.com",
            token_of(random, b"abcdefghij0123456789", 12)
        ),
    }
}

fn token_of(random: &mut Random, letters: &[u8], most: usize) -> String {
    (0..=random.below(most))
        .map(|_| char::from(letters[random.below(letters.len())]))
        .collect()
}

/// What may stand before the `@` of a URI.
fn userinfo(random: &mut Random) -> String {
    match random.below(8) {
        0 => "+1-555-123-0001".to_owned(),
        1 => "alice:secret".to_owned(),
        2 => "user;par=u%40example.net".to_owned(),
        3 => "null-%00-null".to_owned(),
        4 => "a;b:c?d/e&f=g+h$i,j".to_owned(),
        5 => "sips%3Auser%40example.com".to_owned(),
        _ => token_of(random, b"abcdefghijklmnop0123456789", 14),
    }
}

/// A sip or sips URI; with brackets around it, anything may follow the host.
fn sip_uri(random: &mut Random, bracketed: bool) -> String {
    let scheme = random.pick(&["sip", "sip", "sip", "sips", "SIP", "sIpS"]);
    let user = if random.one_in(6) {
        String::new()
    } else {
        format!("{}@", userinfo(random))
    };
    let mut uri = format!("{scheme}:{user}{}", host(random));
    if random.one_in(4) {
        uri.push(':');
        uri.push_str(&(1 + random.below(65_535)).to_string());
    }
    if bracketed {
        if random.one_in(3) {
            uri.push_str(random.pick(&[
                ";transport=udp",
                ";lr",
                ";tag=no",
                ";user=phone",
                ";x=%3e",
                ";maddr=192.0.2.7",
            ]));
        }
        if random.one_in(12) {
            uri.push_str(random.pick(&["?subject=a%20b", "?h=;tag=1", "?Route=%3Csip:x%3E"]));
        }
    }
    uri
}

/// A Request-URI with a scheme that can be judged.
pub fn request_uri(random: &mut Random) -> String {
    match random.below(10) {
        0 => random
            .pick(&[
                "tel:+1-555-123-0001",
                "tel:5551230001;phone-context=+1",
                "TEL:+15551230001",
                "tel:*69",
            ])
            .to_owned(),
        1 => "sip:+1.555.123.0001@gw1.example.net;user=phone".to_owned(),
        2 => "sip:GW1.Example.NET".to_owned(),
        _ => sip_uri(random, true),
    }
}

/// A From or To value of any form, with this tag.
pub fn address(tag: Option<&str>, random: &mut Random) -> String {
    let mut params: Vec<String> = Vec::new();
    for _ in 0..random.rarely(3, 4) {
        params.push(match random.below(5) {
            0 => format!("x{}=\"a;tag=1\\\"<>,\"", random.below(9)),
            1 => "tagx=1".to_owned(),
            2 => "tags".to_owned(),
            _ => format!("x-{}={}", token_of(random, b"abcdef", 5), token(random, 5)),
        });
    }
    if let Some(tag) = tag {
        let equals = if random.one_in(10) {
            random.pick(&[" = ", "= ", " =", "\t=\t"])
        } else {
            "="
        };
        let place = random.below(params.len() + 1);
        params.insert(place, format!("{}{equals}{tag}", spell("tag", random)));
    }
    let mut value = match random.below(9) {
        0 => sip_uri(random, false),
        1 => format!(
            "{}{}<{}>",
            display_name(random),
            random.pick(&["", " ", "\r\n "]),
            sip_uri(random, true)
        ),
        2..=4 => format!("<{}>", sip_uri(random, true)),
        5 => format!("caller<{}>", sip_uri(random, true)),
        6 => "<tel:+1-555-123-0002>".to_owned(),
        _ => format!("{} <{}>", display_name(random), sip_uri(random, true)),
    };
    for param in params {
        let blank = if random.one_in(10) {
            random.pick(&[" ;", "; ", "\r\n ;", ";\t", " ;\r\n "])
        } else {
            ";"
        };
        value.push_str(blank);
        value.push_str(&param);
    }
    value
}

/// A display name: tokens or a quoted string, in which nothing means anything.
fn display_name(random: &mut Random) -> &'static str {
    random.pick(&[
        "Alice",
        "A. G. Bell",
        "\"\"",
        "\"Alice\"",
        "\"a;tag=1\"",
        "\"<sip:x@y>;tag=2, z\"",
        "\"quoted \\\" quote\"",
        "\"back\\\\slash\\\\\"",
        "\"Zoë 東京 \u{1f4de}\"",
        "token1~` token2'+_ token3*%!.-",
        "\"a\\<b\"",
        "\"a fold\r\n in quotes\"",
    ])
}

/// A Call-ID that no other message has.
pub fn call_id(number: u64, random: &mut Random) -> String {
    match random.below(5) {
        0 => format!("{number}@{}", host(random)),
        1 => format!("{number:032x}"),
        2 => format!("word%ZK-!.*_+'@w`~)(><:\\/\"][?}}{{-{number}"),
        3 => format!("{}{}", number, "p".repeat(random.below(120))),
        _ => format!("{}-{number}", token(random, 30)),
    }
}

/// sent-by of a Via: host and port without blanks.
pub fn sent_by(random: &mut Random) -> String {
    match random.below(3) {
        0 => host(random),
        // Not echo and not chargen, which nobody answers.
        _ => format!("{}:{}", host(random), 1024 + random.below(64_512)),
    }
}

/// rport and received as clients and proxies write them.
pub fn routing_params(random: &mut Random) -> Vec<String> {
    let mut params = Vec::new();
    if !random.one_in(3) {
        let rport = spell("rport", random);
        params.push(match random.below(10) {
            0 => format!("{rport}=9"),
            1 => format!("{rport}="),
            _ => rport,
        });
    }
    if random.one_in(6) {
        let forged = random.pick(&["203.0.113.66", "[2001:db8::9:255]", "2001:db8::9:255", ""]);
        params.push(format!("{}={forged}", spell("received", random)));
    }
    params
}

/// A parameter that means nothing here.
pub fn via_param(random: &mut Random) -> String {
    match random.below(6) {
        0 => "ttl=1".to_owned(),
        1 => "alias".to_owned(),
        2 => "x=\"a;b,c\"".to_owned(),
        3 => "receivedfrom=203.0.113.66".to_owned(),
        4 => format!("rport{}=7", random.below(10)),
        _ => format!("{}={}", token_of(random, b"cdefgh", 6), token(random, 10)),
    }
}

/// A Via value below the top: any transport, blanks wherever the grammar has them.
pub fn lower_via(random: &mut Random) -> String {
    let transport = random.pick(&["UDP", "TCP", "TLS", "SCTP", "WSS", "TLS-SCTP", "UNKNOWN"]);
    match random.below(6) {
        0 => format!(
            "SIP / 2.0 / {transport} {} : 5060 ; branch = z9hG4bK{}",
            host(random),
            token(random, 10)
        ),
        1 => format!(
            "SIP/2.0/{transport} {};maddr=203.0.113.9;branch=z9hG4bK{}",
            host(random),
            token(random, 10)
        ),
        2 => format!("SIP/2.0/{transport} {};x=\"a,b;c\\\"d\"", sent_by(random)),
        _ => format!(
            "SIP/2.0/{transport} {};branch=z9hG4bK{};received=192.0.2.{}",
            sent_by(random),
            token(random, 20),
            random.below(256)
        ),
    }
}

/// A row that a reply does not copy.
pub fn other_row(random: &mut Random) -> Vec<u8> {
    let row = match random.below(18) {
        0 => "Contact: <sip:alice@192.0.2.10>;expires=60, \"x\" <sip:b@c>".to_owned(),
        1 => "m:sip:alice@192.0.2.10".to_owned(),
        2 => "Route: <sip:p1.example.com;lr>,\r\n <sip:p2.example.com;lr>".to_owned(),
        3 => "k: timer, 100rel".to_owned(),
        4 => "Subject: Zürich \u{202e}東京".to_owned(),
        5 => "c: application/sdp".to_owned(),
        6 => "Content-Type: multipart/mixed;boundary=\"x;y\"".to_owned(),
        7 => "Authorization: Digest username=\"a\", realm=\"b;tag=1\", nonce=\"\", uri=\"sip:x\", response=\"0\"".to_owned(),
        8 => "Viaduct: SIP/2.0/UDP x".to_owned(),
        9 => "C%6Fntact: <sip:x@y>".to_owned(),
        10 => "Toll: 1".to_owned(),
        11 => "P-Asserted-Identity: <sip:+15551230001@example.com>".to_owned(),
        12 => "Call-Info: <http://example.com/a.png>;purpose=icon".to_owned(),
        13 => "Content-Disposition: session".to_owned(),
        14 => "extensionHeader-!.%*+_`'~:大停電".to_owned(),
        15 => format!("{}: {}", random.pick(&["a", "b", "d", "e", "j", "n", "r", "s", "u", "x", "y", "z"]), token(random, 10)),
        16 => "Record-Route: <sip:p.example.com;lr>\r\n\t".to_owned(),
        _ => format!("X-{}: {}", token(random, 8), "y".repeat(random.below(90))),
    };
    row.into_bytes()
}
