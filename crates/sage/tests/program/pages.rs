//! Pages over HTTP: complete, escaped, and loading nothing from other hosts.

use crate::http::Serving;
use crate::workdir::Workdir;

#[test]
fn a_token_becomes_a_cookie_and_pages_are_whole() {
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    let mia = workdir.good("token create --as mia").trim().to_owned();
    // A name that would be a tag if it were not escaped.
    let evil = workdir.command(&["token", "create", "--as", "<script>alert(1)</script>"]).output().expect("it runs");
    let evil = String::from_utf8(evil.stdout).expect("text").trim().to_owned();
    let serving = Serving::start(&workdir);
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let entered = serving.ask("POST", "/login", &[kind], format!("token={mia}").as_bytes());
    assert_eq!(entered.status, 303, "{}", entered.body);
    let cookie = entered.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a cookie");
    for (path, parts) in [
        ("/", &["taxi", "changes the probability"][..]),
        (
            "/streams/taxi",
            &["<svg", "each block of taxi, train lane", "test lane", "as a table", "<table", "</svg></div></figure>"],
        ),
        ("/streams/taxi?after=0", &["Blocks 1 to", "<details id=\"table\" open>"]),
        ("/streams/taxi/blocks/hour%3D2026-01-01T20", &["sealed; it can be charged", "Who read it", "run 1</a>"]),
        ("/runs", &["taxi-duration", "accepted", "✓"]),
        (
            "/runs/1",
            &[
                "class=\"target\"",
                "class=\"interval good\"",
                "accepted and released",
                "href=\"/releases/taxi-duration/1\"",
            ],
        ),
        ("/releases", &["taxi-duration@1"]),
        ("/releases/taxi-duration/1", &["Try it", "name=\"distance\"", "Where it comes from", "href=\"/runs/1\""]),
        ("/audit", &["released", "Verify the log"]),
        ("/login", &["type=\"password\""]),
    ] {
        let page = serving.ask("GET", path, &[("Cookie", cookie)], b"");
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        assert!(page.head.contains("default-src 'self'") && page.head.contains("text/html"), "{path}: {}", page.head);
        for part in parts {
            assert!(page.body.contains(part), "{path}: {part} is missing in\n{}", page.body);
        }
        for elsewhere in ["http://", "https://", "src=\"//", " style=", " onclick="] {
            assert!(!page.body.contains(elsewhere), "{path} has {elsewhere}");
        }
    }
    let (origin, form) = (serving.address(), form_token(&serving, cookie));
    let own = [("Cookie", cookie), kind, ("Origin", origin.as_str())];
    let tried = format!("distance=2.5&payment=card&pickup=2026-11-02T08%3A15%3A00&form_token={form}");
    let page = serving.ask("POST", "/releases/taxi-duration/1", &own, tried.as_bytes());
    assert!(page.body.contains("The prediction is <strong>"), "{}", page.body);
    let wrong = format!("pickup=<i>&form_token={form}");
    let page = serving.ask("POST", "/releases/taxi-duration/1", &own, wrong.as_bytes());
    assert!(page.body.contains("&lt;i&gt;") && !page.body.contains("<i>"), "{}", page.body);
    // For a waiting run, what is left is set aside.
    let waits = std::fs::read_to_string(workdir.path("examples/duration.toml")).expect("an example");
    serving.good("POST", "/v1/runs", &mia, &waits.replace("\"12h\"", "\"60d\""));
    let page = serving.get("/streams/taxi", &mia);
    assert!(page.body.contains("<td class=\"number\">100 %</td>"), "{}", page.body);
    let verified = serving.ask("POST", "/audit", &own, format!("form_token={form}").as_bytes());
    assert!(verified.status == 200 && verified.body.contains("Verified: each of the"), "{}", verified.body);
    let missing = serving.ask("GET", "/streams/taxi/blocks/none", &[("Cookie", cookie)], b"");
    assert_eq!(missing.status, 404, "{}", missing.body);
    let wrong = serving.ask("POST", "/login", &[kind], b"token=wrong");
    assert!(wrong.status == 401 && wrong.body.contains("role=\"alert\""), "{}", wrong.body);
    let page = serving.get("/", &evil);
    assert!(page.status == 200 && !page.body.contains("<script>alert"), "{}", page.body);
    assert!(serving.ask("GET", "/", &[], b"").head.contains("location: /login"));
}

/// The form token for the holder of this cookie.
fn form_token(serving: &Serving, cookie: &str) -> String {
    let page = serving.ask("GET", "/audit", &[("Cookie", cookie)], b"").body;
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form with a token");
    rest.split('"').next().expect("a token").to_owned()
}

/// Cross-site requests with the cookie of a logged-in user are refused.
#[test]
fn a_post_with_a_cookie_comes_from_a_page_of_this_server() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let [mia, zoe] = ["mia", "zoe"].map(|name| workdir.good(&format!("token create --as {name}")).trim().to_owned());
    let serving = Serving::start(&workdir);
    let (origin, kind) = (serving.address(), ("Content-Type", "application/x-www-form-urlencoded"));
    let cookies = [&mia, &zoe].map(|token| format!("sage_token={token}"));
    let form = form_token(&serving, &cookies[0]);
    let pipeline = std::fs::read_to_string(workdir.path("examples/duration.toml")).expect("an example");
    let other = form_token_of_login(&serving, &cookies[1]);
    for (path, text) in [("/logout", ""), ("/audit", ""), ("/v1/runs", pipeline.as_str())] {
        let right = format!("{text}&form_token={form}");
        let elsewhere = ["http://evil.example", "null", "https://127.0.0.1", &origin.replace("http:", "https:")];
        for origin in elsewhere {
            let headers = [("Cookie", cookies[0].as_str()), kind, ("Origin", origin)];
            assert_eq!(serving.ask("POST", path, &headers, right.as_bytes()).status, 403, "{path} from {origin}");
        }
        let headers = [("Cookie", cookies[0].as_str()), kind];
        assert_eq!(serving.ask("POST", path, &headers, right.as_bytes()).status, 403, "{path} from nowhere");
        let headers = [("Cookie", cookies[0].as_str()), kind, ("Origin", origin.as_str())];
        for body in [text.to_owned(), format!("{text}&form_token="), format!("{text}&form_token={other}")] {
            assert_eq!(serving.ask("POST", path, &headers, body.as_bytes()).status, 403, "{path} without its token");
        }
    }
    assert_eq!(serving.good("GET", "/v1/runs", &mia, "")["runs"].as_array().map(Vec::len), Some(0));
    let own = [("Cookie", cookies[0].as_str()), ("Origin", origin.as_str()), ("X-Form-Token", form.as_str())];
    assert_eq!(serving.ask("POST", "/v1/runs", &own, pipeline.as_bytes()).status, 201);
    let left = serving.ask("POST", "/logout", &[own[0], own[1], kind], format!("form_token={form}").as_bytes());
    assert_eq!(left.status, 303, "{}", left.body);
    // Without a cookie: a login, which must not come from another site, and a bearer token.
    let login = format!("token={mia}");
    for (sent, status) in [(Some("http://evil.example"), 403), (Some(origin.as_str()), 303), (None, 303)] {
        let headers: Vec<_> = sent.map(|origin| ("Origin", origin)).into_iter().chain([kind]).collect();
        assert_eq!(serving.ask("POST", "/login", &headers, login.as_bytes()).status, status, "{sent:?}");
    }
    assert_eq!(serving.with_token("POST", "/v1/plan", &mia, &pipeline).status, 200);
}

/// The form token of a user without a role.
fn form_token_of_login(serving: &Serving, cookie: &str) -> String {
    let page = serving.ask("GET", "/releases", &[("Cookie", cookie)], b"").body;
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form with a token");
    rest.split('"').next().expect("a token").to_owned()
}

/// Behind a declared proxy the cookie is for TLS only, although the server itself has no TLS.
#[test]
fn behind_a_declared_proxy_the_cookie_is_secure() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = workdir.good("token create --as mia").trim().to_owned();
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let forwarded = [
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "sage.example.org"),
        ("X-Forwarded-For", "203.0.113.7, 198.51.100.1"),
        ("Origin", "https://sage.example.org"),
        kind,
    ];
    let body = format!("token={mia}");
    let cookie = |reply: &crate::http::Reply| {
        reply.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).map(str::to_owned).unwrap_or_default()
    };
    let flags = ["serve", "--listen", "127.0.0.1:0", "--proxy", "127.0.0.1"];
    let serving = Serving::from(workdir.command(&flags));
    let entered = serving.ask("POST", "/login", &forwarded, body.as_bytes());
    assert_eq!(entered.status, 303, "{}", entered.body);
    assert!(cookie(&entered).contains("; Secure"), "{}", entered.head);
    // The headers of other clients are ignored.
    drop(serving);
    let serving = Serving::from(workdir.command(&["serve", "--listen", "127.0.0.1:0", "--proxy", "192.0.2.1"]));
    assert_eq!(serving.ask("POST", "/login", &forwarded, body.as_bytes()).status, 403);
    let entered = serving.ask("POST", "/login", &forwarded[..1], body.as_bytes());
    assert!(entered.status == 303 && !cookie(&entered).contains("Secure"), "{}", entered.head);
}
