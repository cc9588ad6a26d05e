//! What an expression means, what is due, and what becomes of the owner's file.

mod file;
mod reference;
mod step;
mod zones;
