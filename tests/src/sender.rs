//! Datagrams at a steady rate.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::namespace::Socket;

/// When the datagrams of [`pace`] were sent.
#[derive(Debug)]
pub struct Paced {
    /// Time of each send, from the start of the first one.
    pub sent_at: Vec<Duration>,
    /// From before the first send to after the last one.
    pub span: Duration,
}

/// Sends `count` datagrams to `address:port`, evenly at `rate_per_second`; late ones follow at once.
pub fn pace(
    socket: &Socket,
    address: &str,
    rate_per_second: f64,
    count: u32,
    datagram: impl Fn(u32) -> String,
) -> Result<Paced> {
    let start = Instant::now();
    let mut sent_at = Vec::new();
    for number in 0..count {
        let text = datagram(number);
        let due = Duration::from_secs_f64(f64::from(number) / rate_per_second);
        if let Some(early) = due.checked_sub(start.elapsed()) {
            thread::sleep(early);
        }
        sent_at.push(start.elapsed());
        socket.send(text, address)?;
    }
    Ok(Paced {
        sent_at,
        span: start.elapsed(),
    })
}
