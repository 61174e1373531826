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
    /// Before the first send.
    pub started: Instant,
    /// Time of each send after that.
    pub sent_at: Vec<Duration>,
}

/// Sends `count` datagrams to `address:port`, evenly at `rate_per_second`; late ones follow at once.
pub fn pace(
    socket: &Socket,
    address: &str,
    rate_per_second: f64,
    count: u32,
    datagram: impl Fn(u32) -> String,
) -> Result<Paced> {
    let started = Instant::now();
    let mut sent_at = Vec::new();
    for number in 0..count {
        let text = datagram(number);
        let due = Duration::from_secs_f64(f64::from(number) / rate_per_second);
        if let Some(early) = due.checked_sub(started.elapsed()) {
            thread::sleep(early);
        }
        sent_at.push(started.elapsed());
        socket.send(text, address)?;
    }
    Ok(Paced { started, sent_at })
}
