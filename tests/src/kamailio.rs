//! Kamailio as the proxy behind the filter, with a generated configuration.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

use crate::{lab::Lab, namespace::Namespace, process::Process};

/// What a proxy does with a request.
#[derive(Clone, Copy, Debug)]
pub enum Route<'a> {
    /// Keeps transaction state and sends everything to one next hop, `address:port`. A 503 from there
    /// becomes a 500 of its own (RFC 3261 16.7).
    Stateful(&'a str),
    /// Sends everything to one next hop without keeping state; answers pass unchanged.
    Stateless(&'a str),
    /// The same, with another host in the Request-URI.
    StatelessTo(&'a str, &'a str),
}

/// A running proxy that logs each request it gets.
#[derive(Debug)]
pub struct Kamailio {
    process: Process,
}

impl Kamailio {
    /// Starts the proxy on `listen` (`address:port`). Returns once it serves.
    pub fn start(
        lab: &Lab,
        namespace: &Namespace,
        name: &str,
        listen: &str,
        route: Route<'_>,
    ) -> Result<Self> {
        let file = lab.directory().join(format!("{name}.cfg"));
        let runtime = lab.directory().join(format!("{name}.run"));
        fs::create_dir(&runtime)?;
        fs::write(&file, configuration(listen, route))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = namespace.command("kamailio");
        // In the foreground, log on standard error, small memory pools.
        command
            .args(["-DD", "-E", "-m", "64", "-M", "8", "-f"])
            .arg(&file)
            .arg("-Y")
            .arg(&runtime);
        let mut process = Process::start(command, name, lab.directory())?;
        let (_, port) = listen.rsplit_once(':').context("listen has no port")?;
        let listening = namespace.wait_for_port(port.parse()?);
        listening.with_context(|| process.log())?;
        // The socket is bound before the workers that read it are forked.
        process.wait_for_log("ready", Duration::from_secs(10))?;
        Ok(Self { process })
    }

    /// The requests it got: `METHOD Request-URI Call-ID` each.
    pub fn requests(&self) -> Vec<String> {
        self.process
            .log()
            .lines()
            .filter_map(|line| line.split_once("request: ")?.1.to_owned().into())
            .collect()
    }
}

fn configuration(listen: &str, route: Route<'_>) -> String {
    let action = match route {
        // t_check_trans ends here for the ACK to an answer this proxy forwarded.
        Route::Stateful(hop) => format!("t_check_trans(); $du = \"sip:{hop}\"; t_relay();"),
        Route::Stateless(hop) => format!("$du = \"sip:{hop}\"; forward();"),
        Route::StatelessTo(hop, host) => {
            format!("$rd = \"{host}\"; $du = \"sip:{hop}\"; forward();")
        }
    };
    format!(
        r#"
debug=1
log_stderror=yes
# One worker: requests of one call must not overtake each other.
children=1
disable_tcp=yes
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{listen}
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "pv.so"
loadmodule "xlog.so"
loadmodule "maxfwd.so"
request_route {{
    xlog("L_NOTICE", "request: $rm $ru $ci\n");
    if (!mf_process_maxfwd_header("10")) {{
        sl_send_reply("483", "Too Many Hops");
        exit;
    }}
    {action}
}}
event_route[core:worker-one-init] {{
    xlog("L_NOTICE", "ready\n");
}}
"#
    )
}
