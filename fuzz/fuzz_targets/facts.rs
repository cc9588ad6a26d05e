//! `facts` of `netsky_sim::fuzz` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| netsky_sim::fuzz::facts(data));
