from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_taskmem.domain.conditions.targets import BUILT_IN_SCHEMES
from openclaw_taskmem.domain.text.odd_words import MASK
from openclaw_taskmem.domain.text.redaction import scrub, scrub_json

A = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"

SECRETS = [
    f"sk-{A}",
    f"sk-ant-api03-{A}",
    f"ghp_{A[:36]}",
    f"github_pat_{A}",
    f"glpat-{A[:20]}",
    "xoxb-1234567890-abcdefghij",
    "AKIAABCDEFGHIJKLMNOP",
    f"AIza{A[:35]}",
    f"npm_{A[:36]}",
    f"hf_{A[:34]}",
    f"sk_live_{A[:24]}",
    f"SG.{A[:22]}.{A[:22]}",
    f"dop_v1_{'0a1b2c3d' * 8}",
    f"123456789:AA{A[:33]}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh1234",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz cut off",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_credential_is_replaced_wherever_it_stands(secret: str) -> None:
    scrubbed = scrub(f"before ({secret}) after")

    assert MASK in scrubbed
    assert secret[8:20] not in scrubbed
    assert scrubbed.startswith("before (")


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("postgres://me:hunter22@db/x", "postgres://me:", "hunter22"),
        ("password=hunter22hunter", "password=", "hunter22"),
        ('{"api_key": "abcdef123456"}', '"api_key": "', "abcdef123456"),
        ("export DB_PASSWORD='s3cr3ts3cr3t'", "DB_PASSWORD=", "s3cr3ts3cr3t"),
        ("Authorization: Bearer abcdefghijklmnop123", "Bearer ", "abcdefghij"),
        ("GITHUB_TOKEN=hunter22 make", "GITHUB_TOKEN=", "hunter22"),
        ("redis://:hunter22@cache/0", "@cache/0", "hunter22"),
        (f"git push https://{A[:24]}9@host/x.git", "@host/x.git", A[:24]),
        (f"https://hooks.slack.com/services/T0/B0/{A[:24]}", "services/", A[:24]),
        ("curl --token hunter22 x", " x", "hunter22"),
        ("curl --token=pw x", " x", "pw"),
        ("mysql --password 'a horse' x", "' x", "horse"),
        ("deploy --api-key=hunter22 x", "--api-key=", "hunter22"),
        ("deploy --client-secret hunter22 x", " x", "hunter22"),
        ("curl -s -u bob:hunter22 https://x", "-u bob:", "hunter22"),
        ("curl --user='bob:hunter22' https://x", "' https://x", "hunter22"),
        ("PGPASSWORD=pw psql -h db", " psql -h db", "=pw"),
        ("docker login -u bob -p hunter22 x", "-u bob -p ", "hunter22"),
        ("sshpass -p hunter22 ssh host", " ssh host", "hunter22"),
        ("mysql -u bob -phunter22 db", "-u bob -p", "hunter22"),
        ("redis-cli -a hunter22 ping", " ping", "hunter22"),
        ("mysql -ptwice -phunter22 db", " db", "hunter22"),
        ("deploy --token='abc def' x", " x", "def"),
        ('deploy --token="hunter2 hunter" x', " x", "hunter"),
        ('deploy --token="hunter2 cut', "--token=", "cut"),
        ("curl -s https://x \\\n  -u bob:hunter22", "-u bob:", "hunter22"),
        ('curl -u "bob:pa ss" https://x', '-u "bob:[secret removed]" h', 'ss"'),
        ("curl -u bob:'pa ss' https://x", " https://x", "ss'"),
        ('redis-cli -a "hun ter2" ping', '" ping', "ter2"),
        ("mysql -p'hun ter2' db", "' db", "ter2"),
        ("sshpass -p hunter22 ssh -p 2222 x", "ssh -p 2222 x", "hunter22"),
        ('sshpass -p "hun ter2" ssh x', " ssh x", "ter2"),
        ('["mysql", "-phunter22", "db"]', '"db"]', "hunter22"),
        ("-H 'Authorization: token hunter22'", "Authorization: token ", "hunter22"),
        ("https://x/?token=hunter22&page=2", "&page=2", "hunter22"),
        (f"/srv/ghp_{A[:36]}/out/a.md", "/out/a.md", A[:36]),
        (f"token: {A[:16]} x", "token: ", A[:16]),
        (f"export DEPLOY_KEY='{A}'", "DEPLOY_KEY='", A),
        (f'{{"x": "--key={A}=="}}', '"}', A),
        ("client_secret: hunter22", "client_secret: ", "hunter22"),
        ("DB_PASSWORD='correct horse' psql", "' psql", "horse"),
        ('password="it\'s a \\" horse" x', '" x', "horse"),
        ("""curl -d '{"password": "a horse", "x": 1}'""", '", "x": 1}', "horse"),
        ('{"user": "bob", "password": "correct hor', '"user": "bob"', "hor"),
        ('{"user": "bob", "githubToken": "a ho', '"user": "bob"', "a ho"),
        (r'echo "{\"password\": \"a horse\", \"x\": 1}"', r", \"x\": 1", "horse"),
        ('"Password:" appears; password: hunter22', "appears; ", "hunter22"),
        ('expect "password:"; send hunter22', "password:", "hunter22"),
        ('echo "password:" hunter22', "password:", "hunter22"),
        ('the 5" disk, password:"hunter22"', "disk, ", "hunter22"),
        (r'"{\"token\": \"a \\\"b\\\" horse\", \"x\": 1', r", \"x\": 1", "horse"),
        ("echo 'hun ter2' | sudo -S ls", " | sudo -S ls", "hun ter2"),
        ("echo bob:hunter22 | sudo chpasswd", "| sudo chpasswd", "hunter22"),
        ("The password is: hunter22, use it", "The password is: ", "hunter22"),
        ("ansible_become_pass: swordfish", "ansible_become_pass: ", "swordfish"),
        ('password <- "swordfish"', 'password <- "', "swordfish"),
        ("ConvertTo-SecureString -String 'hunter22' -Force", "' -Force", "hunter22"),
        ("requirepass hunter2&3", "requirepass ", "&3"),
        ("password: a1;b2,c3 x", " x", "b2"),
        ("PGPASSWORD=hunter22;psql -h db", ";psql -h db", "hunter22"),
        ('password="hunter2)" x', f'password="{MASK}" x', "2)"),
        ("Driver=x;Pwd={hun;ter2};Db=y", f"Pwd={MASK};Db=y", "ter2}"),
        ("password=secret=hunter22 x", f"password={MASK} x", "hunter22"),
        ("login('https://x', 'ann', 'pw12')", f"login('https://x', 'ann', '{MASK}')", "pw12"),
        ("OPENAI_TOKEN\nabcdef12345\nx", "OPENAI_TOKEN\n", "abcdef12345"),
        ("authlogin('ann', 'swordfish')", f"authlogin('ann', '{MASK}')", "swordfish"),
        ("password=password run", " run", "=password"),
        ("MYSQL: password: hunter22, host: db", ", host: db", "hunter22"),
    ],
)
def test_what_says_that_it_was_a_credential_stays(text: str, kept: str, gone: str) -> None:
    scrubbed = scrub(text)

    assert kept in scrubbed
    assert gone not in scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "Step 2 done, the password form renders",
        "Reset your password: see the mail",
        "secret: no",
        "the --password flag is needed; use --token to pass it",
        "run --password $PW --token=$TOKEN --secret <yours> --no-password db",
        "docker login --password-stdin; gpg --passphrase-file /x/y",
        "docker run -u 1000:1000 -p 8080:80 x; ssh -p 2222 host; mkdir -p out",
        "mysql is on -port 3306; the flag --token takes a value",
        'deploy --token="$TOKEN" --token="" x; curl -u "$USER:$PASS" https://x',
        '["docker", "run", "-u", "1000:1000", "--token", "$TOKEN"]',
        "mysql -u root -p shop; curl -u $USER:$PASS https://x",
        "https://x/?page_token=name_of_the_page&tokens=7",
        "sk-learn installed, MSG.sent and https://github-actions-bot@host/x.git",
        "the key is under the mat",
        "https://github.com/alex/coursefolio@v1.2.3",
        "Basic auth works; bearer tokens expire",
        "task-skeleton-for-the-deployment",
        "ssh -i ~/.ssh/id_ed25519 root@host",
        "Unexpected token: identifier; expected one",
        "API_TOKEN=$CI_TOKEN max_tokens=1000000000000000",
        "primary_key=customer_id sort-key: created_at",
        "key: ~/.ssh/id_ed25519_of_2024 keyfile=/etc/ssl/key_of_2024.pem",
        "session_key=agent:main:main sessionKey: 0123456789abcdef0123",
        '{"session_key": "0123456789abcdef0123", "public_key": "0123456789abcdef"}',
        '{"token": 7,   "key": "main", "monkey": "banana"}',
        '{"token": "" }',
        "key=agent1234567890abcdef:main token=name_of_the_following_page",
        'It asks for a password ("Password:"). Elapsed: 4s. Say "no".',
        '"Password:" appeared: "Enter new password: ". Elapsed: 4s.',
        "'Password:' appears or \"passphrase:\" is gone",
        "First pass: running. pwd: /srv/app, pass 2: slow, bypass: no",
        "echo one | tee out; echo $PASS | sudo -S ls; echo y | apt install x",
        "Passwords is a table; the password field is a text, and its token a word",
    ],
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert scrub(text) == text


SAID_OF_A_CREDENTIAL = """
absent and any argument bool boolean bytes changed char correct created default deleted denied
disabled empty enabled error expired failed false field flag for from get has hidden if in
incorrect input int integer invalid is it mandatory masked missing must needed nil no none not
null number object off ok on option optional or output parameter passed prompt read redacted
removed required reset rotated secretstr see self set static str string success text the to true
type undefined unknown unset updated valid value varchar was with write wrong yes
"""
SAID_OF_AN_OPTION = """
switch are of as an works again instead needs can when that which by does at then because takes
file expects requires use pass options PASSWORD
"""


@pytest.mark.parametrize("word", SAID_OF_A_CREDENTIAL.split())
def test_what_is_said_of_a_credential_or_its_type_stays(word: str) -> None:
    assert scrub(f"password={word}") == f"password={word}"


@pytest.mark.parametrize("word", SAID_OF_AN_OPTION.split())
def test_what_is_said_of_an_option_stays(word: str) -> None:
    assert scrub(f"with --password {word} it") == f"with --password {word} it"


def test_a_long_bare_password_is_masked_whole() -> None:
    assert scrub(f"password={'a1B2' * 400} x") == f"password={MASK} x"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("start", "word"), [("A", " key"), ("your_", "key")])
def test_a_long_text_under_a_key_takes_linear_time(start: str, word: str) -> None:
    # What grows with the square takes a minute and more here.
    assert scrub_json({"password": start + word * 100_000 + "."}) == {"password": MASK}


def test_what_closes_after_a_password_stays() -> None:
    assert scrub("(password: hunter22).") == f"(password: {MASK})."


@pytest.mark.parametrize(
    "name",
    [
        *("Mot de passe", "contraseña", "contrasena", "Senha", "wachtwoord", "hasło", "lösenord"),
        *("Пароль", "密码", "密碼", "パスワード", "비밀번호"),
    ],
)
def test_a_password_in_another_language_is_masked(name: str) -> None:
    assert scrub(f"{name}: zeehond7") == f"{name}: {MASK}"


PIECES = (
    *("curl -u ", "--token ", "--api-key=", "PGPASSWORD=", "mysql -p", "?token=", "a:"),
    *("curl ", "-u bob:", "--token=", "sshpass -p ", "redis-cli -a ", " -p", "\\\n"),
    *("password", "token", "_TOKEN", "key", "secret", "bearer ", "hunter22", "7", MASK),
    *("a1b2c3d4e5f6g7h8", '"', "'", "\\", "=", ": ", ",", " ", "{", "}", "[", "]", "\n"),
)
"""What texts are made of that are near to what is looked for."""


@example("-U bob -P =hunter22")
@example("APIKEY=00,A0A")
@given(st.text(max_size=2000) | st.lists(st.sampled_from(PIECES)).map("".join))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def test_text_under_a_credential_key_is_masked_whole() -> None:
    document = {
        "db": {"password": "pw", "host": "h"},
        "tokens": ["ghp_" + A[:36]],
        "n": 3,
        "api_key": "",
        "db_pass": "pw",
        "Authorization": "pw",
        "cookie": ["a", {"b": "c", "n": 7}],
        "bypass": "road",
    }

    assert scrub_json(document) == {
        "db": {"password": MASK, "host": "h"},
        "tokens": [MASK],
        "n": 3,
        "api_key": "",
        "db_pass": MASK,
        "Authorization": MASK,
        "cookie": [MASK, {"b": MASK, "n": 7}],
        "bypass": "road",
    }


@pytest.mark.parametrize(
    ("arguments", "secret"),
    [
        (["curl", "-u", "bob:s3cret99", "https://x"], 2),
        (["sudo", "/usr/bin/curl", "--user", "bob:s3 cret", "https://x"], 3),
        (["mysql", "-u", "bob", "-phunter22", "db"], 3),
        (["redis-cli", "-a", "hun ter2", "ping"], 2),
        (["docker", "login", "-u", "bob", "-p", "hunter22"], 5),
        (["--token", "hunter2hunter2"], 1),
        (["deploy", "-v", "--api-key", 'my "horse"', "now"], 3),
    ],
)
def test_argument_after_a_credential_flag_is_masked(arguments: list[str], secret: int) -> None:
    clean = [MASK if i == secret else each for i, each in enumerate(arguments)]

    assert scrub_json([*arguments]) == clean
    assert scrub_json([*clean]) == clean
    assert json.loads(scrub(json.dumps(arguments))) == clean


@given(st.lists(st.lists(st.sampled_from(PIECES)).map("".join) | st.integers()))
def test_scrubbing_a_list_twice_changes_nothing_more(items: list[str | int]) -> None:
    assert scrub_json(scrub_json([*items])) == scrub_json([*items])


def test_a_long_list_of_bullets_takes_no_more_than_linear_time() -> None:
    bullets = ["curl" * 100_000, *(["- use the key"] * 5_000)]
    assert scrub_json(bullets) == bullets


def test_credential_used_as_a_key_is_masked_and_its_value_kept() -> None:
    document = {"ghp_" + A[:36]: 1, "sk-" + A: {"password=hunter22": "x"}, "n": 2}

    assert scrub_json(document) == {MASK: 1, f"{MASK} 2": {f"password={MASK}": "x"}, "n": 2}


@pytest.mark.parametrize(
    "key", ["password", "client_secret", "githubToken", "apiKey", "credentials", "token"]
)
def test_a_text_that_is_json_is_looked_at_by_its_keys(key: str) -> None:
    inner = json.dumps({key: 'my "horse"', "name": "b\u00e9"})
    text = json.dumps({"n": [inner, "\ud800"], key.upper(): "pw"})

    scrubbed = json.loads(scrub(text))

    assert scrubbed == {
        "n": [json.dumps({key: MASK, "name": "b\u00e9"}), "\ud800"],
        key.upper(): MASK,
    }
    scrub(text).encode()


def test_a_key_of_json_is_read_as_json_has_it() -> None:
    text = r'{"passw\u006frd": "my horse"}'

    assert json.loads(scrub(text)) == {"password": MASK}


@pytest.mark.parametrize(
    "text", ['{"key": ' + "9" * 5000 + "}", '{"key":' + "[" * 30_000, '["key"', "[key"]
)
def test_what_only_looks_like_json_is_a_text_like_any_other(text: str) -> None:
    assert scrub(text) == text
    assert scrub(f"{text} password=hunter22") == f"{text} password={MASK}"


HOSTILE = (
    *("password=", 'password="', "password:'", 'password=\\"', "password=\\", "\\"),
    *('"\\', "key=", "key=a", 'key="a1', "key=a.", "key=1/", "token:", 'token":"'),
    *("curl -u ", "mysql -p ", "docker login ", "redis-cli -a", "--a-", "--token "),
    *("sshpass ", "A_PASSWORD", "--a_token", "authorization: token ", "curl -u a"),
    *("_TOKEN=", '{"password":', '[{"key":"', "a1/", "["),
    *("https://a/hooks/", "user a@b ", "kind: Secret\n data:\n  x", "authorization: a="),
)


@pytest.mark.parametrize("space", [130, 140, 148, 150])
@pytest.mark.parametrize("before", ["", "password "])
def test_a_password_far_behind_a_login_is_masked_whole(before: str, space: int) -> None:
    filler = ("is for " * 30)[: space - len(before)]
    text = f"login {before}{filler} Xk7vQz2mR9wT4pLs8dN3 and"

    assert scrub(text) == f"login {before}{filler} {MASK} and"


def test_each_name_in_a_line_is_looked_behind() -> None:
    filler = ("is for " * 30)[:144]

    assert scrub(f"login {filler}passwords are  Xk7vQz2mR9").endswith(f"are  {MASK}")


@pytest.mark.parametrize("option", ["-p", "-pw", "--pass"])
def test_joined_words_after_an_option_for_passwords_are_masked(option: str) -> None:
    assert scrub(f"tool {option} Blue-Door") == f"tool {option} {MASK}"


@pytest.mark.parametrize("host", ["db", "10.0.0.5", "db-1.example.com", "4me"])
def test_an_odd_word_between_user_and_host_is_masked(host: str) -> None:
    assert scrub(f"ben/se7en4Ever@{host}") == f"ben/{MASK}@{host}"


def test_a_password_that_ends_in_a_number_is_no_package() -> None:
    assert scrub("root/Passw0rd@123") == f"root/{MASK}@123"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", HOSTILE)
def test_no_assignment_takes_more_than_linear_time(piece: str) -> None:
    # What grows with the square takes minutes here, and runs into the time limit.
    many = piece * (262_144 // len(piece))
    for before in ("key ", 'password="', 'password=\\"', '{"key":"'):
        scrub(before + many)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["password", "://a:", "bearer ", "-----BEGIN ", "a_", "eyJa.", "eyJaaaaaaaa-", "a."]
)
def test_a_hostile_text_takes_no_more_than_linear_time(piece: str) -> None:
    # What grows with the square takes minutes here, and runs into the time limit.
    scrub("key " + piece * (2_097_152 // len(piece)))


@pytest.mark.parametrize("scheme", sorted(BUILT_IN_SCHEMES))
def test_a_capitalised_name_of_a_target_stays(scheme: str) -> None:
    assert scrub(f"{scheme}:Save-As") == f"{scheme}:Save-As"
    assert scrub(f"{scheme}:task_1m8qgxz98gcwhk7h") == f"{scheme}:task_1m8qgxz98gcwhk7h"
    assert scrub(f"{scheme}:aB3dE5fG!x") == f"{scheme}:{MASK}"
