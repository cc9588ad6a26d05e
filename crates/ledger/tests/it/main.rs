//! The record of a throwaway home.
#![forbid(unsafe_code)]

mod facts;
mod house;
mod ingest;
mod owner_views;
mod query;
mod rebuilt;
mod unread;
