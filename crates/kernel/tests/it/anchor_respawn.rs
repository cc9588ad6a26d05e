//! No two of anyone: before a generation starts, nothing of an earlier one is left.

use std::process::Command;
use std::time::Duration;

use netsky_disk::process::PidFd;
use netsky_kernel::rpc::Guard;
use netsky_kernel::session::ENV_SESSION;
use netsky_model::id::Generation;

use crate::anchor_world::*;
use crate::bystander::Bystander;

#[test]
fn i11_what_bears_the_lineages_mark_is_gone_before_the_next_generation_runs() {
    let mut world = World::new();
    let mut client = world.anchor();
    let first = spawn(&mut client, &sleeper("agent0"));
    client.kill(&first.name, Some(Duration::ZERO), &Guard::none()).expect("killed");
    // One that no earlier sweep could see: it took the mark on after the end of its generation.
    let mut late = Command::new("sleep");
    late.arg("1000").env_clear().env("PATH", "/usr/bin:/bin").env(ENV_SESSION, first.lineage.as_str());
    let late = Bystander::start(&mut late);
    let held = PidFd::open(&late.id).expect("a descriptor").expect("it lives");
    let second = spawn(&mut client, &sleeper("agent0"));
    let gone = held.wait(Duration::ZERO).expect("asked");
    assert_eq!(second.generation, Generation(2));
    assert!(gone, "generation 2 runs beside a process of generation 1");
}
