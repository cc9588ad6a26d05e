//! `netsky task`: what is to be done, who does it, and what became of it.

use netsky_model::task::Task;

use crate::run::verbs;

mod list;

verbs! {
    /// What is to be done, who does it, and what became of it
    Verb {
        List(list::Args),
    }
}

/// Who has a task, or is to do it.
fn who(task: &Task) -> String {
    match (task.state.holder(), &task.assignee) {
        (Some((by, _)), _) => by.to_string(),
        (None, Some(to)) => format!("for {to}"),
        (None, None) => "-".to_owned(),
    }
}
