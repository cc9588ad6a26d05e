//! A peer: Redis Streams on loopback with `appendfsync always`, one and 32 producers, as it is.
//!
//! The two promise the same to a producer: what was answered is on the disk. They differ in the rest: Redis is a server
//! that keeps everything in memory and writes one log, so that one sync serves all who wait at that moment.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use netsky_bus::{Bus, Draft};
use netsky_disk::home::Home;
use netsky_disk::layout::Layout;
use netsky_model::id::{AgentId, Generation, Sender};
use netsky_model::witness::Nobody;

use super::bus::LIMITS;
use super::floor;
use super::pairs::{Pair, alternate, timed};

/// Messages of all producers of a round together.
const MESSAGES: usize = 1_600;
const ROUNDS: usize = 5;

/// How long a server may take to answer for the first time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing where this machine has no Redis.
pub(crate) fn measure(scratch: &Path) -> Result<Vec<Pair>> {
    let place = scratch.join("redis");
    std::fs::create_dir_all(&place)?;
    let Some(server) = Server::start(&place)? else { return Ok(Vec::new()) };
    let layout = Layout::new(place.join("home"));
    Home::init(&layout).map_err(|refused| anyhow::anyhow!("make a home: {refused}"))?;
    let bus = Bus::open(&layout, &Nobody);
    bus.create(&AgentId::numbered(7))?;
    let mut pairs = Vec::new();
    for (producers, name) in [(1, "1,600 messages by one producer"), (32, "1,600 messages by 32 producers")] {
        pairs.push(alternate(
            name,
            "`XADD` of as many bytes to Redis Streams, `appendfsync always`, loopback",
            ROUNDS,
            |_| timed(|| together(producers, || server.produce(MESSAGES / producers))),
            |_| {
                let took = timed(|| together(producers, || send(&layout, MESSAGES / producers)))?;
                bus.drain(&AgentId::numbered(7), usize::MAX, Generation::NONE, |_| Ok(()))?;
                Ok(took)
            },
        )?);
    }
    Ok(pairs)
}

/// Runs `work` on as many threads at once.
fn together(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        running.into_iter().try_for_each(|one| one.join().expect("no producer panics"))
    })
}

fn send(layout: &Layout, count: usize) -> Result<()> {
    let bus = Bus::open(layout, &Nobody).with_limits(LIMITS);
    (0..count).try_for_each(|_| {
        let draft = Draft::new(Sender::from(AgentId::root()), AgentId::numbered(7), floor::TEXT);
        Ok(bus.send(draft).map(drop)?)
    })
}

/// A server of our own on a free port of loopback; gone when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(place: &Path) -> Result<Option<Server>> {
        // Asked of the system and given back: nobody else takes it in between but by accident, which then shows.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let spawned = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "always"])
            .args(["--port", &port.to_string(), "--dir"])
            .arg(place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("start redis-server"),
        };
        let server = Server { child, port };
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).is_err() {
            ensure!(began.elapsed() < PATIENCE, "redis-server does not answer");
            std::thread::yield_now();
        }
        Ok(Some(server))
    }

    /// Adds one message after another, each after the answer to the one before.
    fn produce(&self, count: usize) -> Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let body = "x".repeat(floor::ENVELOPE_BYTES);
        let request = request(&["XADD", "agent7", "*", "body", &body]);
        let mut line = String::new();
        for _ in 0..count {
            stream.write_all(request.as_bytes())?;
            line.clear();
            answers.read_line(&mut line)?;
            if !line.starts_with('$') {
                bail!("redis: {line}");
            }
            answers.read_line(&mut line)?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request in the protocol's own form: an array of strings with their lengths.
fn request(words: &[&str]) -> String {
    let strings: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{strings}", words.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_long_each_word_is() {
        assert_eq!(request(&["PING", "é"]), "*2\r\n$4\r\nPING\r\n$2\r\né\r\n");
    }
}
