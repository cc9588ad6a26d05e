//! The steppers tried on small programs of the system whose calls are known; hostile inputs tried on `model`; with the
//! feature `memory` what a power cut may leave, and crashes of the bus.
#![forbid(unsafe_code)]

#[cfg(feature = "memory")]
mod crash;
mod fuzz;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "memory")]
mod refusals;
mod render;
mod stepper;
