//! Disks that fail, and a small build to try on them.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod build;
pub mod faulty;
pub mod volatile;
