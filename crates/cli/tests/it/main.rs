//! The real `netsky` in throwaway homes.
#![forbid(unsafe_code)]

mod bus_home;
mod durability;
mod errno_points;
mod everywhere;
mod kill_points;
mod racers;
