"""What a call may have left behind: outside, in files, nobody can tell, nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.effects.side_effects import Effect, judge_call, split_script

OUTSIDE = """
curl -X POST https://shop.example/pay
curl -sSXPOST https://shop.example/pay
curl --request=DELETE https://api.example/users/1
curl -d 'amount=5' https://shop.example/pay
curl -sd @order.json https://shop.example/orders
curl --json '{"a": 1}' https://api.example
curl -F file=@a.pdf https://api.example
curl -T a.tar https://files.example
curl -H 'X-Key: 1' -o out.json -X PUT https://api.example/1
TOKEN=x curl -X PATCH https://api.example/1
cd /srv && curl -X POST https://shop.example/pay | jq .
echo "$(curl -X POST https://shop.example/pay)"
x=`curl -X POST https://shop.example/pay`
bash -c "curl -X POST https://shop.example/pay"
timeout 10 curl -X POST https://shop.example/pay
for n in 1 2; do curl -X POST https://shop.example/pay; done
if true; then curl -X POST https://shop.example/pay; fi
cat order.json | xargs curl -d
wget --post-data=a=1 https://api.example
http POST https://api.example name=x
http https://api.example name=x
git push origin main
git -C /srv/site push
git add . && git commit -m "see cat.txt" && git push
gh pr create --fill
gh release upload v1 a.tar
gh api -X POST repos/a/b/issues
gh api repos/a/b/issues -f title=x
npm publish
npm run deploy
yarn deploy
make deploy
make build deploy
cargo publish
twine upload dist/*
python3 -m twine upload dist/*
docker push registry.example/app
docker compose push
kubectl apply -f app.yaml
kubectl -n prod delete pod app
helm upgrade app ./chart
terraform apply -auto-approve
terraform destroy init
aws s3 cp a.txt s3://bucket/a.txt
gcloud run deploy app
vercel --prod
ssh prod 'systemctl restart app'
scp a.txt prod:/srv
rsync -a site/ prod:/srv/site
mail -s Invoice tom@example.com
sendmail tom@example.com
stripe charges create --amount 5
himalaya message send
./deploy.sh
bin/send-invoice 12
aws events put-events
aws events put-rule
aws logs delete-log-group
stripe events resend
az policy assignment create
gcloud compute images delete x
vercel env add
netlify env:set
heroku ps:scale web=2
heroku run status
cdk watch
pulumi watch
kubectl rollout restart status
kubectl delete events
npm deprecate
npm access
npm dist-tag add
npm owner add
cargo owner
mvn clean deploy
gradle test publishToMavenLocal
gh api --method GET -X POST repos/a/b/issues
"""

FILES = """
find . -name x -delete
echo made > a.txt
echo made >> a.txt
cat a.txt b.txt &> all.txt
cat > a.txt <<'END'
python3 make.py > out.csv 2>&1
cp a b
mv a b
rm -rf build
mkdir -p out/a
sed -i s/a/b/ a.txt
tee a.txt
curl -o a.zip https://files.example/a.zip
curl -sLO https://files.example/a.zip
wget https://files.example/a.zip
git commit -am "push it"
git checkout -b next
git stash -a
git tag -a v1 -m one
ninja -C build install
cmake --install build
git branch -D old
npm install
pip install requests
uv pip install requests
cargo add serde
tar -xzf a.tgz
sudo apt-get install -y jq
terraform init
docker pull alpine
docker cp test-db:/a a
git branch -r -d old
npm audit fix
make clean
"""

OTHER = """
python3 make.py
python3 -c 'print(1)'
node server.js
./run.sh
./make
./test
bash run.sh
psql -c "update users set paid = true"
npm run seed
make seed
docker run app
docker run check-runner migrate
docker exec test-db psql -c 'DROP TABLE a'
docker exec status ls
systemctl restart test-api.service
systemctl stop log-collector
systemctl restart status
uv run check_orders.py
go run test
openssl genrsa
curl https://get.example/install.sh | sh
echo "an open quote
cat `ls
awk '{print > "a.txt"}' b.txt
kill 12
xargs -n 1 frob
cat a.txt; frob …
cat …
"""

NOTHING = """
cat a.txt
cat a.txt | grep POST | head -3
grep ">" a.txt
echo 'rm -rf / ; curl -X POST x'
cat a.txt 2>/dev/null
cat a.txt > /dev/null 2>&1
ls -la && pwd
cd /srv && ls
curl https://api.example/orders
curl -sSL -H 'Accept: a' https://api.example | jq .
curl -G -d q=cats https://api.example
curl -I https://api.example
curl -o /dev/null -s https://api.example
curl -X GET https://api.example
wget -qO- https://api.example
http https://api.example q==cats
git status
git -C /srv/site log --oneline -5
git branch -a
git remote -v
ninja -C build
cmake --build build
git diff && git show
git fetch
gh pr view 12
gh api repos/a/b
npm test
npm run build -- --mode production
npm run lint && npm run test:unit
yarn test
npx vitest
node_modules/.bin/jest
.venv/bin/pytest -q
/usr/bin/cat a.txt
./gradlew build
pnpm build
make
make -j4 test
cargo test
go build ./...
python -m pytest -q
pytest tests/test_send.py
docker build -t push .
docker ps
docker compose logs deploy
docker logs push
systemctl status test-api.service
aws s3 ls
stripe customers list
gh run watch 12
git stash list
kubectl rollout status deploy
kubectl get pods -n prod
terraform plan
aws ec2 describe-instances
ssh prod 'tail -n 5 /var/log/app'
find . -name '*.py'
sed -n 1,5p a.txt
tar -tf a.tar
vim --version
for f in *.py; do wc -l $f; done
while [ ! -e done ]; do sleep 1; done
until [ -e go ]; do sleep 0.1; done # file5
diff <(ls a) <(ls b)
echo $((1 + 2))
echo "$((1 + 2))"
cat <<< 'see << EOF'
# curl -X POST https://shop.example/pay
export PATH=$PATH:/opt/bin
A=1
"""


def each(effect: Effect, commands: str) -> list[tuple[str, Effect]]:
    return [(command, effect) for command in commands.strip().splitlines()]


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        *each(Effect.OUTSIDE, OUTSIDE),
        *each(Effect.FILES, FILES),
        *each(Effect.OTHER, OTHER),
        *each(Effect.NOTHING, NOTHING),
    ],
)
def test_a_command_is_judged_by_its_words(command: str, effect: Effect) -> None:
    assert judge_call("exec", command) is effect


@pytest.mark.parametrize(
    ("tool", "method", "effect"),
    [
        ("write", None, Effect.FILES),
        ("edit", None, Effect.FILES),
        ("apply_patch", None, Effect.FILES),
        ("read", None, Effect.NOTHING),
        ("web_fetch", None, Effect.NOTHING),
        ("web_fetch", "POST", Effect.OUTSIDE),
        ("web_request", "get", Effect.NOTHING),
        ("web_request", "delete", Effect.OUTSIDE),
        ("message", "send", Effect.OUTSIDE),
        ("message", "react", Effect.OUTSIDE),
        ("message", "read", Effect.NOTHING),
        ("message", None, Effect.OUTSIDE),
        ("sessions_send", None, Effect.OUTSIDE),
        ("process", "poll", Effect.NOTHING),
        ("process", "kill", Effect.OTHER),
        ("browser", "snapshot", Effect.NOTHING),
        ("browser", "act", Effect.OTHER),
        ("gmail__send_email", None, Effect.OUTSIDE),
        ("shop__checkout", None, Effect.OUTSIDE),
        ("gmail__get_order", None, Effect.OTHER),
        ("unheard_of", None, Effect.OTHER),
    ],
)
def test_a_tool_is_judged_by_its_name_and_method(
    tool: str, method: str | None, effect: Effect
) -> None:
    assert judge_call(tool, "curl -X POST x", method) is effect


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("python3 make.py", Effect.FILES),
        ("cat a.txt", Effect.NOTHING),
        ("npm test", Effect.NOTHING),
        ("git push", Effect.OUTSIDE),
    ],
)
def test_an_unknown_command_that_changed_files_wrote(command: str, effect: Effect) -> None:
    assert judge_call("exec", command, changed=True) is effect


def test_what_a_command_is_given_line_by_line_is_no_command() -> None:
    script = "cat > a.sh <<'END'\ncurl -X POST https://shop.example\nEND\n"

    assert judge_call("exec", script) is Effect.FILES
    assert judge_call("exec", f"{script}git push") is Effect.OUTSIDE


@pytest.mark.parametrize(
    "before",
    [
        'echo "note: see << EOF"',
        "echo 'note: see << EOF'",
        "echo note: see \\<< EOF",
        "# see << EOF",
        "# goes on \\",
        "x=$((1 << EOF))",
        "x=$(( ((1) << (EOF)) + 2 ))",
        "((x = 1 << EOF))",
        "cat <<< EOF",
        "cat <<A <<B\n<<C\nA\nB",
        "cat <<'END'\ngoes on \\\nEND",
        "echo \"$(cat <<'END'\nisn't ) it\nEND\n)\"",
    ],
)
def test_only_a_here_document_hides_the_lines_below(before: str) -> None:
    assert judge_call("exec", f"{before}\ncurl -X POST http://x\nEOF") is Effect.OUTSIDE


@pytest.mark.parametrize(
    ("start", "effect"),
    [
        ("cat <<EOF", Effect.OUTSIDE),
        ("cat <<'EOF'", Effect.NOTHING),
        ("frob <<'EOF'", Effect.OTHER),
    ],
)
def test_commands_in_a_here_document_run_if_not_quoted(start: str, effect: Effect) -> None:
    assert judge_call("exec", f"{start}\na $(curl -X POST http://x)\nEOF\n") is effect
    assert judge_call("exec", f"{start}\na `git push`\nEOF\n") is effect


def test_commands_too_deep_to_look_into_are_not_known() -> None:
    assert judge_call("exec", "bash -c '" * 6 + "ls" + "'" * 6) is Effect.OTHER
    assert judge_call("exec", 'echo "' + "$(echo " * 9 + ")" * 9 + '"') is Effect.OTHER


@pytest.mark.parametrize(
    "command",
    [
        "curl -H '(' -X POST https://shop.example/pay",
        "curl $(cat options) -X POST https://shop.example/pay",
        'curl "$(echo "https://shop.example/pay")" -X POST',
        "echo \"$(echo ')' ; git push)\"",
        'echo "$((git) ; git push)"',
        'echo "$(( 1 + $(git push) ))"',
        "echo $(case a in a) git push;; esac)",
        r"echo `echo \`git push\``",
        "curl -X \\\n POST https://shop.example/pay # don't worry",
        "# what isn't closed\ncurl -X POST https://shop.example/pay",
        "cat <<END\nisn't it\nEND\ncurl -X POST https://shop.example/pay",
    ],
)
def test_quotes_brackets_and_comments_hide_no_words(command: str) -> None:
    assert judge_call("exec", command) is Effect.OUTSIDE


@pytest.mark.parametrize(
    "command", ["grep ';' a.txt", "echo 'Add `send`'", "grep x a.txt \\; # push", "cat a#b"]
)
def test_quoted_operators_and_comments_are_no_commands(command: str) -> None:
    assert judge_call("exec", command) is Effect.NOTHING


@given(st.text(alphabet="ab ;&|()<>\"'`$#\\\n{}-=…", max_size=60))
def test_any_text_can_be_split_and_judged(text: str) -> None:
    assert judge_call("exec", text) in Effect
    assert all(command.words or command.files for command in split_script(text).commands)
