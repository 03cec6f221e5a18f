// SPDX-License-Identifier: Apache-2.0
//! Asks pkg-config where libinfer is.
use std::process::Command;

fn main() {
    let out = Command::new("pkg-config")
        .args(["--libs", "libinfer"])
        .output()
        .expect("pkg-config cannot be run");
    if !out.status.success() {
        panic!("{}", String::from_utf8_lossy(&out.stderr));
    }
    for word in String::from_utf8_lossy(&out.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={name}");
        }
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
