//! What a client asks of all sessions: in parts, where a line does not hold them.

use netsky_model::id::AgentId;

use super::{Client, ClientError};
use crate::rpc::{self, Method, Page, RefusalKind, SessionView};

impl Client {
    /// Sessions that live or ended and were not reaped.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ps(&mut self) -> Result<Vec<SessionView>, ClientError> {
        Ok(self.table()?.sessions)
    }

    /// The same, with what is wrong with the settings.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn table(&mut self) -> Result<rpc::ps::Answer, ClientError> {
        let mut table = rpc::ps::Answer { sessions: Vec::new(), next: None, settings: None };
        let ask = |page| rpc::ps::Params { page };
        self.parts::<rpc::ps::Ps>(ask, |part| {
            table.sessions.extend(part.sessions);
            table.settings = part.settings;
            part.next
        })?;
        Ok(table)
    }

    /// Every session of the root.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn list(&mut self) -> Result<Vec<SessionView>, ClientError> {
        let mut sessions = Vec::new();
        let ask = |page| rpc::list::Params { page };
        self.parts::<rpc::list::List>(ask, |part| {
            sessions.extend(part.sessions);
            part.next
        })?;
        Ok(sessions)
    }

    /// Puts ended sessions aside; returns their names.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn reap(&mut self) -> Result<Vec<AgentId>, ClientError> {
        let mut reaped = Vec::new();
        loop {
            let answer = self.call::<rpc::reap::Reap>(&rpc::reap::Params {})?;
            reaped.extend(answer.reaped);
            if !answer.more {
                return Ok(reaped);
            }
        }
    }

    /// Asks for all of a list, and for one part of it after the other where that is too large; `take` says where the next
    /// one begins behind. An anchor of a former program knows no parts.
    pub(super) fn parts<M: Method>(
        &mut self,
        ask: impl Fn(Option<Page>) -> M::Params,
        mut take: impl FnMut(M::Answer) -> Option<AgentId>,
    ) -> Result<(), ClientError> {
        match self.call::<M>(&ask(None)) {
            Err(error) if error.kind() == Some(RefusalKind::TooLarge) => {}
            answered => {
                take(answered?);
                return Ok(());
            }
        }
        let mut page = Page::default();
        while let Some(next) = take(self.call::<M>(&ask(Some(page.clone())))?) {
            if page.after.as_ref() >= Some(&next) {
                let why = format!("the part behind {next} begins at it again");
                return Err(ClientError::Gibberish { method: M::NAME, why });
            }
            page.after = Some(next);
        }
        Ok(())
    }
}
