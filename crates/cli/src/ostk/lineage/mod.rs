//! `ostk lineage`: logical identities across processes.

use netsky_disk::layout::KernelLayout;
use netsky_kernel::session::Meta;
use netsky_model::id::{AgentId, LineageId};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::run::verbs;

mod list;
mod resolve;
mod show;

verbs! {
    /// Look at lineages, and say what becomes of one that waits
    Verb {
        List(list::Args),
        Show(show::Args),
        Resolve(resolve::Args),
    }
}

/// A lineage by its id, or by the name of the session that carries it.
fn named(cx: &Context, name: &str) -> Result<LineageId, Error> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let session: AgentId = name.parse().map_err(|_| {
        let what = format!("{name} is neither a lineage's id nor a session's name");
        Error::new(Kind::Usage, what).hint("see `ostk lineage list`")
    })?;
    let path = KernelLayout::new(cx.kernel_root()?).meta(&session);
    let bytes = netsky_disk::state::read(&path)?.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("no session {session}"))
            .hint("see `ostk kernel ps`; `ostk lineage list` also has those whose description is lost")
    })?;
    let meta = Meta::parse(&bytes).map_err(|e| {
        Error::new(Kind::Damaged, format!("{} does not read: {e}", path.display()))
            .hint("`ostk lineage list` knows its lineage")
    })?;
    Ok(meta.lineage)
}
