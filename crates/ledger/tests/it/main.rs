//! The record of a throwaway home.
#![forbid(unsafe_code)]

mod facts;
mod house;
mod ingest;
mod query;
mod rebuilt;
mod unread;
