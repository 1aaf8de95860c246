//! Pages as a browser gets them: complete, escaped, and loading nothing from elsewhere.

use crate::http::Serving;
use crate::place::Place;

#[test]
fn a_token_becomes_a_cookie_and_pages_are_whole() {
    let (place, _) = Place::with_rides("150_000");
    place.good("submit examples/duration.toml --wait --as mia");
    let mia = place.good("token create --as mia").trim().to_owned();
    // A name that is made to be taken for a tag.
    let evil = place.command(&["token", "create", "--as", "<script>alert(1)</script>"]).output().expect("it runs");
    let evil = String::from_utf8(evil.stdout).expect("text").trim().to_owned();
    let serving = Serving::start(&place);
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
        ("/streams/taxi/blocks/hour%3D2026-01-01T20", &["sealed, it can be charged", "Who read it", "run 1</a>"]),
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
    let tried = "distance=2.5&payment=card&pickup=2026-11-02T08%3A15%3A00";
    let page = serving.ask("POST", "/releases/taxi-duration/1", &[("Cookie", cookie), kind], tried.as_bytes());
    assert!(page.body.contains("The prediction is <strong>"), "{}", page.body);
    let page = serving.ask("POST", "/releases/taxi-duration/1", &[("Cookie", cookie), kind], b"pickup=<i>");
    assert!(page.body.contains("&lt;i&gt;") && !page.body.contains("<i>"), "{}", page.body);
    // One that waits has what is left set aside for it.
    let waits = std::fs::read_to_string(place.path("examples/duration.toml")).expect("an example");
    serving.good("POST", "/v1/runs", &mia, &waits.replace("\"12h\"", "\"60d\""));
    let page = serving.get("/streams/taxi", &mia);
    assert!(page.body.contains("<td class=\"number\">100 %</td>"), "{}", page.body);
    let verified = serving.ask("POST", "/audit", &[("Cookie", cookie), kind], b"");
    assert!(verified.status == 200 && verified.body.contains("Verified: each of the"), "{}", verified.body);
    let missing = serving.ask("GET", "/streams/taxi/blocks/none", &[("Cookie", cookie)], b"");
    assert_eq!(missing.status, 404, "{}", missing.body);
    let wrong = serving.ask("POST", "/login", &[kind], b"token=wrong");
    assert!(wrong.status == 401 && wrong.body.contains("role=\"alert\""), "{}", wrong.body);
    let page = serving.get("/", &evil);
    assert!(page.status == 200 && !page.body.contains("<script>alert"), "{}", page.body);
    assert!(serving.ask("GET", "/", &[], b"").head.contains("location: /login"));
}
