//! Tests of the kernel with real processes.

mod anchor_clients;
mod anchor_faults;
mod anchor_follow;
mod anchor_keeper;
mod anchor_life;
mod anchor_removed;
mod anchor_rename;
mod anchor_respawn;
mod anchor_sessions;
mod anchor_typing;
mod anchor_undescribed;
mod anchor_world;
mod attach;
mod attach_terminal;
mod bench;
#[path = "../../../disk/tests/it/bystander.rs"]
mod bystander;
mod cgroups;
mod disk_errors;
mod hostile_programs;
mod kill_trees;
mod must_shows;
mod rotation;
mod rpc_schema;
#[path = "../../../bus/tests/it/skipped.rs"]
mod skipped;
mod steps;
mod steps_of_calls;
mod worker_apart;
mod worker_ends;
mod worker_output;
mod worker_reach;
mod worker_start;
mod worker_terminal;
