//! The store: every backend by one suite, and the embedded one when processes, disks and power fail.

mod conformance;
mod crash;
mod damage;
mod disk_faults;
mod faults;
mod faults_shim;
mod folder;
mod pause;
mod power_loss;
