//! The record of a throwaway home.
#![forbid(unsafe_code)]

mod facts;
