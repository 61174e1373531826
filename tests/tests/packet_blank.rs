//! Blanks and folds in numbers that no one writes, and other corners of the grammar.

use anyhow::Result;
use overload_common::abi::Reason;
use overload_tests::packet::{Datagram, Filter, base, edit};

const VIA: &str = "branch=z9hG4bK-a1;rport";
const TO: &str = "<sip:+15551230001@gw1.example.net>";

/// Passes, or is refused as the oracle composes it.
fn judged(text: &str) -> Result<Reason> {
    let mut filter = Filter::refusing()?;
    Ok(filter.judge(&Datagram::new(5062, text.as_bytes()))?.0)
}

#[test]
fn r3261_12_1_many_blanks_hide_no_tag() -> Result<()> {
    for blanks in ["         ", "\r\n \r\n \r\n "] {
        for to in [
            format!("{TO};{blanks}tag=1"),
            format!("{TO};tag{blanks}=1"),
            format!("{TO}{blanks};tag=1"),
        ] {
            let reason = judged(&edit(&base("a1"), TO, &to))?;
            assert!(
                matches!(reason, Reason::InDialog | Reason::BadHeader),
                "{to:?} {reason:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn r3261_18_2_2_2_many_blanks_hide_no_parameter() -> Result<()> {
    for param in ["maddr=203.0.113.9", "received=203.0.113.9", "rport"] {
        for blanks in ["         ", "\r\n \r\n \r\n "] {
            let via = format!("branch=z9hG4bK-a1;{blanks}{param}");
            let reason = judged(&edit(&base("a1"), VIA, &via))?;
            assert!(
                !param.starts_with("maddr") || reason != Reason::RateLimit,
                "{via:?} {reason:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn r3261_8_2_6_2_many_blanks_behind_a_value_split_no_line_end() -> Result<()> {
    for blanks in [
        "\r\n \r\n \r\n \r\n ",
        "\r\n\t\r\n\t\r\n\t\r\n\t ",
        "          ",
    ] {
        judged(&edit(&base("a1"), VIA, &format!("{VIA}{blanks}")))?;
        judged(&edit(&base("a1"), TO, &format!("{TO}{blanks}")))?;
    }
    Ok(())
}

#[test]
fn r4475_badbranch_blanks_behind_the_cookie_are_no_branch() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for branch in [
        "branch=z9hG4bK ;rport",
        "branch=z9hG4bK\r\n ;rport",
        "branch=z9hG4bK , SIP/2.0/UDP b;branch=z9hG4bK1",
    ] {
        filter.expect(edit(&base("a1"), VIA, branch), Reason::NoBranch)?;
    }
    Ok(())
}

#[test]
fn r3261_17_1_1_3_1_blanks_behind_the_branch_hide_no_ack() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let invite = edit(&base("a1"), VIA, "branch=z9hG4bK-a1 ;rport");
    let reply = filter.reply(&invite)?;
    let usual = base("a1");
    filter.expect(overload_tests::packet::ack(&usual, &reply), Reason::OwnAck)
}

#[test]
fn r3261_8_1_1_1_a_via_without_host_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.expect(
        edit(&base("a1"), "192.0.2.10:5060", ":5060"),
        Reason::BadVia,
    )
}

#[test]
fn r3261_16_3_1_max_forwards_of_two_zeros_is_zero() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for value in ["0", "00", "00000"] {
        filter.expect(
            edit(
                &base("a1"),
                "Max-Forwards: 70",
                &format!("Max-Forwards: {value}"),
            ),
            Reason::MaxForwardsZero,
        )?;
    }
    Ok(())
}

#[test]
fn c32_64_headers_in_a_message_as_long_as_the_scan() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let fill = format!("X: {}\r\n", "y".repeat(61)).repeat(64 - 8);
    let request = edit(&base("a1"), "CSeq:", &format!("{fill}CSeq:"));
    assert!(
        request.len() > 3_970 && request.len() < 4_032,
        "{}",
        request.len()
    );
    filter.expect(request, Reason::RateLimit)
}
