//! Clocks: the wall for calendars, the boot clock for ages. They are different types on purpose.

use std::time::Duration;

use jiff::Timestamp;
use netsky_model::stamp::Stamp;
use rustix::time::{ClockId, clock_gettime};

use crate::sys::simulated;

/// The wall clock, UTC; may step either way.
pub fn wall() -> Timestamp {
    simulated!(world => world.wall());
    crate::seam::wall(Timestamp::now())
}

/// The wall clock to the second, as file formats show it.
pub fn wall_seconds() -> Timestamp {
    Timestamp::from_second(wall().as_second()).expect("a second of the present is in range")
}

/// Time since boot, suspend included; never steps.
pub fn boot() -> Duration {
    simulated!(world => world.boot());
    let time = clock_gettime(ClockId::Boottime);
    crate::seam::boot(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
}

/// Both clocks and the boot they belong to.
pub fn stamp() -> Stamp {
    let boot_ms = boot().as_millis() as u64;
    Stamp { wall: wall(), boot_ms, boot_id: crate::process::boot_id().to_owned() }
}

/// Sleep for a cadence or a backoff; never to wait for something that has an event.
pub fn pause(duration: Duration) {
    simulated!(world => world.pause(duration));
    std::thread::sleep(duration);
}
