//! The steppers tried on small programs of the system whose calls are known; hostile inputs tried on `model`.
#![forbid(unsafe_code)]

mod render;
mod stepper;
