//! How the description of a session stands in its file: flat, with the names that the format documents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netsky_model::id::{AgentId, Generation, LineageId};
use netsky_model::process::ProcessId;
use netsky_model::stamp::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Io, Keeper, Meta, Phase, Spec, VERSION};

/// The flat shape on disk, with the names the format documents.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MetaFile {
    v: u64,
    name: AgentId,
    lineage: LineageId,
    generation: Generation,
    phase: Phase,
    pid: Option<u32>,
    start_time: Option<u64>,
    worker_pid: Option<u32>,
    worker_start_time: Option<u64>,
    boot_id: Option<String>,
    ns: Option<u64>,
    runtime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    argv: Vec<String>,
    cwd: PathBuf,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    umask: Option<u32>,
    io: Io,
    keeper: Keeper,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    socket: PathBuf,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    asked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handoff: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_from: Option<u64>,
    anchor_epoch: u64,
    written_at: Stamp,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl From<Meta> for MetaFile {
    fn from(meta: Meta) -> MetaFile {
        // Program and worker always share boot and pid namespace: the worker started the program.
        let home = meta.worker.as_ref().or(meta.program.as_ref());
        MetaFile {
            v: VERSION,
            boot_id: home.map(|p| p.boot_id.clone()),
            ns: home.map(|p| p.ns),
            pid: meta.program.as_ref().map(|p| p.pid),
            start_time: meta.program.as_ref().map(|p| p.start_time),
            worker_pid: meta.worker.as_ref().map(|p| p.pid),
            worker_start_time: meta.worker.as_ref().map(|p| p.start_time),
            name: meta.spec.name,
            lineage: meta.lineage,
            generation: meta.generation,
            phase: meta.phase,
            runtime: meta.spec.runtime,
            model: meta.spec.model,
            argv: meta.spec.argv,
            cwd: meta.spec.cwd,
            env: meta.spec.env,
            umask: meta.spec.umask,
            io: meta.spec.io,
            keeper: meta.spec.keeper,
            tags: meta.spec.tags,
            socket: meta.socket,
            version: meta.version,
            conversation: meta.conversation,
            asked: meta.asked,
            handoff: meta.handoff,
            cgroup: meta.cgroup,
            output_from: meta.output_from,
            anchor_epoch: meta.anchor_epoch,
            written_at: meta.written_at,
            extra: meta.extra,
        }
    }
}

impl TryFrom<MetaFile> for Meta {
    type Error = String;

    fn try_from(file: MetaFile) -> Result<Meta, String> {
        let identity =
            |pid: Option<u32>, start_time: Option<u64>| match (pid, start_time, &file.boot_id, file.ns) {
                (None, None, _, _) => Ok(None),
                (Some(pid), Some(start_time), Some(boot_id), Some(ns)) => {
                    Ok(Some(ProcessId { pid, start_time, boot_id: boot_id.clone(), ns }))
                }
                _ => Err("a process needs pid, start time, boot_id and ns together".to_owned()),
            };
        Ok(Meta {
            program: identity(file.pid, file.start_time)?,
            worker: identity(file.worker_pid, file.worker_start_time)?,
            lineage: file.lineage,
            generation: file.generation,
            spec: Spec {
                name: file.name,
                argv: file.argv,
                cwd: file.cwd,
                env: file.env,
                umask: file.umask,
                io: file.io,
                runtime: file.runtime,
                model: file.model,
                keeper: file.keeper,
                tags: file.tags,
            },
            anchor_epoch: file.anchor_epoch,
            written_at: file.written_at,
            phase: file.phase,
            socket: file.socket,
            version: file.version,
            conversation: file.conversation,
            asked: file.asked,
            handoff: file.handoff,
            cgroup: file.cgroup,
            output_from: file.output_from,
            extra: file.extra,
        })
    }
}
