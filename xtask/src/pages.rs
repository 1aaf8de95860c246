//! `cargo xtask pages`: tests every page in a real browser. Chromium and Node are Debian's packages; their driver is
//! installed below target/, where screenshots are written.

use std::path::PathBuf;

use crate::packages;
use crate::workspace::{self, Failure};

/// The Node packages of the test, and the picture of the README that it can update.
const MANIFEST: &str = "tools/pages/package.json";
const PICTURE: &str = "docs/dashboard.png";

/// Tests all pages.
pub(crate) fn check() -> Result<(), Failure> {
    workspace::run(browser_test()?.env_remove("SAGE_PICTURE"))
}

/// Tests all pages and updates the picture.
pub(crate) fn draw() -> Result<(), Failure> {
    workspace::run(browser_test()?.env("SAGE_PICTURE", workspace::root().join(PICTURE)))
}

fn browser_test() -> Result<std::process::Command, Failure> {
    let modules = install_modules()?;
    let chromium = packages::find("chromium").ok_or("pages: chromium is installed but not on the path")?;
    let mut command = workspace::test_program("program", &["pages_hold_in_a_browser", "--", "--nocapture"]);
    command.env("SAGE_BROWSER", modules).env("SAGE_CHROMIUM", chromium);
    Ok(command)
}

/// Installs missing packages and returns the folder of the Node modules.
fn install_modules() -> Result<PathBuf, Failure> {
    packages::ensure("chromium", "chromium")?;
    packages::ensure("node", "nodejs")?;
    packages::ensure("npm", "npm")?;
    let folder = workspace::target_directory()?.join("pages");
    let manifest = workspace::read(MANIFEST)?;
    let written = folder.join("package.json");
    let modules = folder.join("node_modules");
    if modules.is_dir() && std::fs::read_to_string(&written).is_ok_and(|text| text == manifest) {
        return Ok(modules);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    std::fs::write(&written, manifest).map_err(failed)?;
    let mut install = std::process::Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(&folder);
    workspace::run(&mut install)?;
    Ok(modules)
}
