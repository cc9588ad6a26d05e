//! Which tasks are to land next.

use netsky_model::id::TaskId;
use netsky_model::task::{State, place};

use super::Desk;
use crate::Result;

impl Desk<'_> {
    /// The tasks whose agents say that they are done, by priority and then by age; what has no repository lands nowhere.
    ///
    /// # Errors
    /// The record does not read.
    pub fn ready(&self) -> Result<Vec<TaskId>> {
        let mut ready = self.board.list()?;
        ready.retain(|task| matches!(task.state, State::Ready { .. }) && task.repo.is_some());
        ready.sort_by(|one, other| {
            let rank = |task: &netsky_model::task::Task| (task.priority, task.created);
            rank(one).cmp(&rank(other)).then_with(|| place(&one.id).cmp(&place(&other.id)))
        });
        Ok(ready.into_iter().map(|task| task.id).collect())
    }
}
