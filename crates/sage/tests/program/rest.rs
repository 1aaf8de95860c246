//! Data at rest: file permissions, restored directories, encryption, and what a deleted block leaves.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::http::Serving;
use crate::keeping::small_workdir;
use crate::workdir::Workdir;

/// Everything below a folder, the folder included.
fn everything(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
        found.push(path);
    }
    found
}

fn assert_private(root: &Path) {
    for path in everything(root) {
        let found = std::fs::metadata(&path).expect("it is there");
        let wanted = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, wanted, "{}", path.display());
    }
}

/// Runs command lines with this umask.
fn under_umask(workdir: &Workdir, umask: &str, lines: &[&str]) {
    let program = env!("CARGO_BIN_EXE_sage");
    let script: String = lines.iter().map(|line| format!("{program} {line}\n")).collect();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &format!("umask {umask}\n{script}")]).current_dir(workdir.path("."));
    crate::without_settings(&mut shell);
    let output = shell.env("XDG_CONFIG_HOME", workdir.path("settings")).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Regression: with the usual umask every user of the machine could read rows, the log and the releases.
#[test]
fn files_are_for_their_owner_alone_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let workdir = Workdir::new();
        std::fs::write(workdir.path("rides.toml"), crate::keeping::STREAM).expect("a file");
        std::fs::write(workdir.path("rides.csv"), crate::keeping::rows(0)).expect("a file");
        std::fs::write(workdir.path("count.toml"), COUNT).expect("a file");
        under_umask(
            &workdir,
            umask,
            &[
                "stream create rides.toml --as ada --heads head",
                "ingest rides rides.csv --as dan --heads head",
                "blocks rides --do seal --before 2026-03-01 --as dan --heads head",
                "query rides 'SELECT count(*)' --all --epsilon 1 --key first --as mia --heads head",
                "submit count.toml --wait --as mia --heads head",
                "token create --as mia",
                "backup saved --heads head",
                "audit export bundle --heads head",
                "restore saved --dir again",
            ],
        );
        for folder in ["sage-data", "saved", "bundle", "again"] {
            assert_private(&workdir.path(folder));
        }
        assert_private(&workdir.path("head"));
        assert!(workdir.path("sage-data/releases").read_dir().expect("a folder").next().is_some(), "released");
    }
}

/// Files that SQLite makes beside the log while it is open.
#[test]
fn files_of_a_running_server_are_readable_by_the_owner_only() {
    let workdir = small_workdir();
    // A directory of an earlier release.
    for path in everything(&workdir.path("sage-data")) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
    }
    let _serving = Serving::start(&workdir);
    let mode = |name: &str| {
        let found = std::fs::metadata(workdir.path(&format!("sage-data/{name}")));
        found.map(|found| found.permissions().mode() & 0o777).ok()
    };
    assert_eq!((mode("."), mode("log.db"), mode("blocks")), (Some(0o700), Some(0o600), Some(0o700)));
    for name in ["log.db-wal", "log.db-shm"] {
        assert_eq!(mode(name), Some(0o600), "{name}");
    }
}

const COUNT: &str =
    "[pipeline]\nname = \"count\"\nstream = \"rides\"\n[train]\nkind = \"statistic\"\nstatistic = \"count\"\n";

/// Regression: a token that was revoked after the backup was valid again in the restored directory.
#[test]
fn tokens_of_a_backup_are_not_valid_unless_kept() {
    let workdir = small_workdir();
    let leaked = workdir.good("token create --as mia").trim().to_owned();
    workdir.good("backup saved");
    let works = |dir: &str| {
        let _given_up = workdir.good(&format!("restore --acknowledge --nothing-since --dir {dir} --as ada"));
        let serving = Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--dir", dir]));
        serving.with_token("GET", "/v1/streams/rides", &leaked, "").status
    };
    let said = workdir.run("restore saved --dir new");
    assert!(said.err.contains("tokens of the backup are not valid"), "{}", said.err);
    assert_eq!(works("new"), 401);
    workdir.good("restore saved --dir same --keep-tokens");
    assert_eq!(works("same"), 200);
}

/// Blocks, summaries and quarantined rows are noise without their keys, and deleting a block destroys its key.
#[test]
fn encrypted_blocks_are_read_with_the_key_and_never_after_deletion() {
    let workdir = Workdir::new();
    std::fs::write(workdir.path("rides.toml"), crate::keeping::STREAM).expect("a file");
    std::fs::write(workdir.path("rides.csv"), crate::keeping::rows(0) + "never,7,7.5\n").expect("a file");
    std::fs::write(workdir.path("count.toml"), COUNT).expect("a file");
    std::fs::write(workdir.path("master.key"), [7; 32]).expect("a key");
    let key = "--key-file master.key";
    workdir.good(&format!("stream create rides.toml --as ada {key}"));
    workdir.good(&format!("ingest rides rides.csv --as dan {key}"));
    workdir.good(&format!("blocks rides --do seal --before 2026-03-01 --as dan {key}"));
    workdir.good(&format!("submit count.toml --wait --as mia {key}"));
    let files = |folder: &str| -> Vec<PathBuf> {
        everything(&workdir.path(folder)).into_iter().filter(|path| path.is_file()).collect()
    };
    let stored = [files("sage-data/blocks"), files("sage-data/sums")].concat();
    assert!(stored.len() > 4, "{stored:?}");
    for path in &stored {
        let bytes = std::fs::read(path).expect("a file");
        assert!(bytes.starts_with(b"sage encrypted 1\n"), "{}", path.display());
        assert!(!bytes.windows(4).any(|some| some == b"PAR1"), "{}", path.display());
    }
    // Without the key, or with another, blocks cannot be opened, so nothing is charged; listings work.
    workdir.fails("query rides 'SELECT count(*)' --all --epsilon 1 --as mia", 1, "are encrypted");
    std::fs::write(workdir.path("other.key"), [8; 32]).expect("a key");
    workdir.fails("blocks rides --key-file other.key", 1, "not the master key");
    assert_eq!(workdir.json("audit verify")["sound"], true);
    assert_eq!(workdir.json("doctor")["findings"], serde_json::json!([]));
    let hexadecimal = "07".repeat(32);
    assert!(workdir.good(&format!("blocks rides --key-command 'echo {hexadecimal}'")).contains("sealed"));
    assert!(workdir.good(&format!("quarantine rides --as dan {key}")).contains("no time within its bounds"));
    // A backup can be used only with the master key.
    workdir.good(&format!("backup saved {key}"));
    assert!(!files("saved/keys").is_empty());
    // A copy from before the deletion cannot be decrypted after it.
    let block = "day=2026-02-01";
    let copied: Vec<(PathBuf, Vec<u8>)> = files(&format!("sage-data/blocks/rides/{block}"))
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(&path).expect("a part")))
        .collect();
    let keys = files(&format!("sage-data/keys/blocks/rides/{block}"));
    assert_eq!((copied.len(), keys.len()), (1, 1));
    workdir.good(&format!("blocks rides --do retire --block {block} --as ada {key}"));
    workdir.good(&format!("blocks rides --do delete --block {block} --as ada {key}"));
    assert!(!keys[0].exists() && files(&format!("sage-data/blocks/rides/{block}")).is_empty());
    assert!(files(&format!("sage-data/sums/rides/{block}")).is_empty());
    for (path, bytes) in copied {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, bytes).expect("put back");
    }
    let all = "query rides 'SELECT count(*)' --all --epsilon 1 --as mia";
    workdir.good(&format!("{all} {key}"));
    workdir.fails(&format!("query rides 'SELECT count(*)' --block {block} --epsilon 1 --as mia {key}"), 12, "retired");
    let left = everything(&workdir.path("sage-data/keys")).into_iter().filter(|path| path.is_file()).count();
    assert_eq!(left, 1 + 2 + 1, "the check, two blocks and the quarantined rows");
}
