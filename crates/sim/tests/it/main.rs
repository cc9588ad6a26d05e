//! The steppers tried on small programs of the system whose calls are known.
#![forbid(unsafe_code)]

mod stepper;
