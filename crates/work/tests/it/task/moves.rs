//! What is made, changed and closed, and what is refused.
