//! `cargo xtask pages`: every page in a real browser. Chromium and node are Debian's; what drives them is installed
//! below target/, where screenshots of the walk stay.

use std::path::PathBuf;

use crate::packages;
use crate::workspace::{self, Failure};

/// What the walk needs, and the picture of the README that it can draw.
const NEEDS: &str = "tools/pages/package.json";
const PICTURE: &str = "docs/dashboard.png";

/// Walks through all pages.
pub(crate) fn check() -> Result<(), Failure> {
    workspace::run(walk()?.env_remove("SAGE_PICTURE"))
}

/// The same, and draws the picture anew.
pub(crate) fn draw() -> Result<(), Failure> {
    workspace::run(walk()?.env("SAGE_PICTURE", workspace::root().join(PICTURE)))
}

fn walk() -> Result<std::process::Command, Failure> {
    let modules = installed()?;
    let chromium = packages::find("chromium").ok_or("pages: chromium is installed, and not where programs are")?;
    let mut command = workspace::test_program("program", &["pages_hold_in_a_browser", "--", "--nocapture"]);
    command.env("SAGE_BROWSER", modules).env("SAGE_CHROMIUM", chromium);
    Ok(command)
}

/// Installs what is missing; gives where node finds it.
fn installed() -> Result<PathBuf, Failure> {
    packages::ensure("chromium", "chromium")?;
    packages::ensure("node", "nodejs")?;
    packages::ensure("npm", "npm")?;
    let place = workspace::target_directory()?.join("pages");
    let wanted = workspace::read(NEEDS)?;
    let written = place.join("package.json");
    let modules = place.join("node_modules");
    if modules.is_dir() && std::fs::read_to_string(&written).is_ok_and(|text| text == wanted) {
        return Ok(modules);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    std::fs::create_dir_all(&place).map_err(failed)?;
    std::fs::write(&written, wanted).map_err(failed)?;
    let mut install = std::process::Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(&place);
    workspace::run(&mut install)?;
    Ok(modules)
}
