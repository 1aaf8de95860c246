//! A pipeline's file is read as written, written back in one form, and refused with the line at fault.

mod hostile;
mod read;
mod refused;
