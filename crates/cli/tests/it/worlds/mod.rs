//! More than one world on one machine: homes, users, pid namespaces and boots that must not take each other for dead, nor
//! for themselves.

mod boots;
mod homes;
mod namespaces;
mod users;
