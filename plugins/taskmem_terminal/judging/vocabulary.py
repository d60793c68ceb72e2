"""The words in which agents say what they wait for."""

from __future__ import annotations

import re
from typing import Final

QUIET: Final = re.compile(
    r"\b(?:no|without)(?: (?:any|new|more|further|additional))*"
    r" (?:output|text|lines?|activity|changes?|messages?|progress|log(?: \w+)?)\b"
    r"|\bnothing(?: \w+)?(?: is| was| has been| gets| has)?"
    r" (?:printed|shown|output|logged|happens|changes|comes|appears|new|moved|changed)"
    r"|\b(?:goes|go|is|been|becomes|falls|stays|remains|gets) (?:quiet|silent|idle"
    r"|still)"
    r"|\b(?:does ?n[o']t|does not|hasn't|has not) (?:change|move|print|update|moved"
    r"|changed|printed|updated)\b"
    r"|\bstops? (?:printing|scrolling|changing|producing|updating|logging|output\w*"
    r"|moving)"
    r"(?! \w*(?:error|warn))"
    r"|\b(?:output|terminal|screen|log) (?:stops|pauses|settles|stalls|dries up)\b"
    r"|\b(?:hangs|stalls|is stuck|gets stuck|appears stuck|seems stuck|freezes)\b"
)
SPAN: Final = re.compile(
    r"\b(\d{1,6}(?:\.\d{1,3})?|an?|half an?|two|three|five|ten|thirty|sixty)[ -]?"
    r"(h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)\b"
)
HOPELESS: Final = re.compile(
    r"\b(?:turns?|becomes?|goes|is|are|looks?|highlighted|shown|shows?|flash\w*|in"
    r"|lights? up)"
    r" (?:\w+ )?(?:green|red|yellow|orange|blue|gr[ea]y|white|black|purple|bold)\b"
    r"|\b(?:colou?r(?:ed|s)?|icons?|buttons?|charts?|graphs?|plots?|pictures?"
    r"|images? (?:loads?|appears?|is (?:shown|visible|rendered))|logo|spinner|animat\w+"
    r"|layouts?|cursor|mouse|thumbnails?|checkbox\w*|drop-?down|menus?|toolbar"
    r"|wallpaper|progress bar (?:disappears|vanishes|is gone|goes away)|photo\w*"
    r"|screenshots?|tooltip|scroll ?bar|modal|slider|visually|pixels?|browser)\b"
    r"|\blooks? (?:\w+ )?(?:right|good|ok(?:ay)?|fine|correct|wrong|off|nice|better"
    r"|complete|finished|normal|stable|different|done|broken|as if|like)\b"
    r"|\b(?:something|anything|somewhat) (?:\w+ )?(?:interesting|important|unusual"
    r"|strange|weird|suspicious|noteworthy|relevant|useful|odd|bad|good|special|notable"
    r"|cool|funny|surprising|unexpected|dangerous)\b"
    r"|\b(?:interesting|noteworthy|remarkable|it'?s time|time is right|makes sense"
    r"|i should|needs? my attention|worth (?:looking|knowing|checking)|happy|weather"
    r"|stock price|satisfied|feels?|mood|turns out|hopeless\w*|unreasonabl\w+|our \w+)"
    r"\b"
)
DOUBT: Final = re.compile(
    r"\b(?:unless|except|but|twice|thrice|times|again|before|while|instead|rather|other"
    r" than|only|each|every|between|still|not|never|cannot|nor|neither|second"
    r"|third|fourth|nth|another|half|almost|nearly|about to|most|after|except for|last"
    r" \d+|next \d+|stays?|remains?|keeps?|stuck|lower|slower|faster|longer|same|none"
    r"|without|ignor\w+|regardless|in a row|consecutive\w*|too|enough"
    r"|although|however|differs?|if|long|nothing|admin|for good|for ever)\b|n't\b"
)
"""What bends a sentence so far that only those who understand it may judge."""
AFTER: Final = re.compile(r"\b(?:after|because|since|once|now that|as soon as)\b.*$")
FLAWLESS: Final = re.compile(
    r"\b(?:and )?(?:without(?: any)?|(?:(?:with|has|have|had|there (?:are|were)"
    r"|reports?"
    r"|shows?|finds?|found) )?(?:no|zero|0)) (?:\w+ ){0,2}?"
    r"(?:errors?|failures?|problems?|issues?|exceptions?|failed tests?|failing tests?)"
    r"(?: (?:in|on|at) the (?:end|output|log|terminal))?"
    r"(?: (?:were |are |was |is )?(?:found|reported|shown|occur\w*|printed|detected))?"
    r"\b"
    r"|\berror[- ]free\b|\bflawlessly\b|\bno (?:unit )?tests? (?:has |have )?"
    r"(?:failed|fails?)\b"
)

PROMPT: Final = re.compile(
    r"\b(?:shell|command(?:[- ]line)?|bash|zsh|fish|terminal|unix|linux|cli|root|user"
    r"|python|node|sql|gdb)?"
    r"'?s? ?\bprompt\b.{0,40}\b(?:returns?|returned|is back|comes back|reappears"
    r"|appears"
    r"|is (?:shown|visible|available|ready|displayed|free|there|waiting)|shows?(?: up)?"
    r"|ready|again|back|is idle)\b"
    r"|\b(?:return\w*|back|get|gets|have|drops?|dropped|lands?|see|shows?|control|at)"
    r" (?:\w+ ){0,4}(?:shell|command(?:[- ]line)?|bash|terminal|zsh|\$|#)? ?prompt\b"
    r"|\bshell (?:is (?:back|idle|free|available|ready|waiting)|returns|comes back)\b"
    r"|\b(?:returns?|back) to (?:the |a )?(?:shell|command line|prompt|bash)\b"
    r"|\bcontrol (?:returns|is returned|comes back)\b"
    r"|\bterminal (?:is (?:idle|free|ready|available) (?:for|again)|accepts commands)\b"
    r"|^(?:the |a )?(?:shell|command(?:[- ]line)?|bash) prompt$"
    r"|\bready for (?:the |a )?(?:next |new )?commands?\b"
)
PROGRAMS: Final = (
    ("python", re.compile(r"\b(?:i?python3?|pdb)\b|>>>")),
    ("node", re.compile(r"\bnode(?:\.?js)?\b")),
    ("sql", re.compile(r"\b(?:mysql|mariadb|psql|postgres\w*|sqlite3?|sql)\b")),
    ("gdb", re.compile(r"\b(?:gdb|lldb|debugger)\b")),
    ("other", re.compile(r"\b(?:remote|ssh|irb|ghci|repl|redis-cli|mongo\w*|login)\b")),
)
ASKS: Final = re.compile(
    r"\b(?:asks?(?: me| us)?(?: for| to| about| whether| if| a)?"
    r"|prompt(?:s|ed)?(?: me| us)? (?:for|to)|prompting|asking|requests? (?:a|my|the)"
    r"|requires? (?:a|my|user|input)|wants?|needs? (?:a|my|user|input|me)"
    r"|waits? (?:for|on)|waiting (?:for|on)|expects?|awaits?|demands?)\b"
    r"|\b(?:password|passphrase|confirmation|input|login|username|sudo|y/n|yes/no"
    r"|credentials?)(?: \w+)? (?:prompt|request|question"
    r"|is (?:requested|required|needed|asked))"
    r"|\b(?:question|confirmation)\b.{0,20}\b(?:appears|comes|is (?:asked|shown))\b"
    r"|\b(?:y/n|yes/no)\b|\binteractive (?:prompt|question|input)"
)
ASKS_FOR: Final = re.compile(
    r"\basks?(?: me| us| you)? (?:for|about|which|what)\b(.*)$"
)
THING_ASKED: Final = re.compile(
    r"(?:(?:for )?(?:an?|the|my|some) )?((?:[\w-]+ )?(?:pass ?word|pass ?phrase|user ?"
    r"name"
    r"|confirmation|input|code|pin|login|token|e-?mail))"
)
ASIDE: Final = re.compile(
    r",?\s*(?:\be\.\s?g\.|\bfor example\b|\bbecause\b|\b(?:most )?likely\b|\bprobably\b"
    r"|\bpresumably\b|, as (?:it|they) should\b).*$",
    re.IGNORECASE,
)
"""What an agent adds out of its own thoughts."""
BEGINS_TO: Final = re.compile(
    r"\b(?:starts?|begins?|started|began)(?: to)? (?!up\b|listening|accepting|serving"
    r"|listen|accept|serve|on\b|at\b|in\b|with\b|successfully|and\b|without)\w+"
)
ERROR_NAME: Final = re.compile(
    r"\b[a-z]{2,40}(?:error|exception)\b|\be[a-z]{5,14}(?<=inuse|fused|reset|noent"
    r"|acces|edout|found)\b"
)
ERROR_KIND: Final = re.compile(
    r"\b(compil\w+|syntax|network|type|import|linker|test|connection|migration"
    r"|validation"
    r"|assertion|runtime|lint\w*|parse|database|disk|dns|ssl|tls) errors?\b"
)
SPOTLESS: Final = re.compile(
    r"\b(?:and )?(?:without(?: any)?|(?:(?:with|has|have|there are|reports?|shows?) )?"
    r"(?:no|zero|0)) (?:errors? (?:or|and) )?(?:\w+ )?warnings?(?: (?:or|and) errors?)?"
    r"\b"
    r"|\bwarning[- ]free\b"
)
ASKED: Final = (
    (
        "password",
        re.compile(r"\b(?:pass ?words?|pass ?phrases?|sudo|secret|pin|credentials?)\b"),
    ),
    (
        "code",
        re.compile(r"\b(?:otp|2fa|mfa|verification|one-time|authenticat\w+|codes?)\b"),
    ),
    (
        "confirmation",
        re.compile(
            r"\b(?:confirm\w*|y/n|yes/no|approv\w*|proceed|continue|permission|accept"
            r"|sure|whether|overwrite|agree)\b"
        ),
    ),
    ("user name", re.compile(r"\b(?:user ?names?|login|email|e-mail)\b")),
    (
        "key",
        re.compile(r"\bpress(?:ing)?\b|\b(?:any|a|enter|return) key\b|\bkey ?press\b"),
    ),
    (
        "input",
        re.compile(
            r"\b(?:input|answers?|reply|response|question|user|me|us|human|anything"
            r"|something|choice|selection|choose|select|interaction|type|typing|stdin"
            r"|prompt)\b"
        ),
    ),
)

END: Final = re.compile(
    r"\b(?:finish(?:es|ed|ing)?|complet(?:es?|ed|ion|ing)|done|exit(?:s|ed|ing)?"
    r"|end(?:s|ed)?|terminat(?:es?|ed|ion)|returns?|returned|stop(?:s|ped)?|quits?"
    r"|concludes?|concluded|closes|closed|over|shuts? down|shut down|wraps? up"
    r"|wrapped up|(?:is|are) through|dies|gone|runs? (?:through|to (?:the )?(?:end"
    r"|completion))|ran|no longer (?:running|active|alive)|goes away|disappears"
    r"|goes down|went down)\b"
)
PROCESS: Final = re.compile(
    r"\b(?:process|exit(?:s|ed|ing)?|terminat\w+|quits?|dies|crash\w*|shuts? down"
    r"|goes down|stops)\b"
)
"""Words for the end of a process, whatever its work was."""
WHOLLY: Final = re.compile(
    r"\bfinish\w* (?!\w+ing\b.*\bor\b)\w+ing\b.* (?:all|both|every|each|the whole)\b"
)
STRICT: Final = re.compile(r"\bcomplet\w+|\bdone\b")
ANYHOW: Final = re.compile(
    r"\b(?:tests?|suites?|command|process|script|program|job|run|execution|build"
    r"|lint\w*|checks?|it|they|this|make|everything|pytest|session|loop|shell"
    r"|subprocess|benchmark\w*|scan)\b"
)
DID: Final = re.compile(
    r"\b(?:(?:has|have|had|is|are|was|were|gets?|got|been|being|be|successfully|fully"
    r"|all|both)\s+){1,4}(?:\w+ly )?((?:re)?(?:built|compiled|installed|downloaded"
    r"|uploaded|pushed|pulled|cloned|deployed|published|copied|transferred|extracted"
    r"|unpacked|generated|migrated|applied|synced|synchroni[sz]ed|formatted|linted"
    r"|backed up|restored|imported|exported|indexed|converted|rendered|encoded|trained"
    r"|seeded|processed|executed|tested|verified|checked|validated|provisioned|fetched"
    r"|bundled|packaged|written|saved|created|updated|upgraded|removed|deleted|cleaned"
    r"|linked|archived|compressed|committed|rolled out|resolved|run|added|rebased"
    r"|merged))\b"
    r"|^(?:successfully )?(?:installed|downloaded|uploaded|compiled|built|cloned)\b"
    r"|\b(?:compiles|builds|installs|deploys|downloads|uploads|links|rolls out)\b"
)
WELL: Final = re.compile(
    r"\b(?:succe(?:eds?|eded|ss|ssful|ssfully)|pass(?:es|ed|ing)?|green|clean(?:ly)?"
    r"|works?|worked|goes through|properly|correctly|normally|gracefully)\b"
)
BADLY: Final = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?|crash(?:es|ed|ing)?|breaks?|broke|broken"
    r"|abort(?:s|ed)?|bails?(?: out)?|goes? wrong|went wrong|error(?:s|ed) out|blows up"
    r"|unsuccessful(?:ly)?|is killed|gets killed|killed|with (?:an? |some )?errors?"
    r"|errors$|gives? up|gave up|(?:is|was|gets) (?:cancell?ed|rejected)|unable|could ?"
    r"n[o']t"
    r"|cannot|can't)\b|\bdies$"
)
NEGATED: Final = re.compile(r"\b(?:unable|could ?n[o']t|could not|cannot|can't)\b")
SOME_TEST: Final = re.compile(
    r"\b(?:a|an|any|one|some|first|single|at least one|one or more)"
    r"(?: of the| single| unit)* (?:tests?|specs?|test cases?|assertions?)(?: \w+)? "
    r"fail"
    r"|\bfailing tests?\b|\btest failures?\b|\bfailed tests?\b"
)
CODE: Final = re.compile(
    r"\b(?:exit(?:s|ed|ing)?|return(?:s|ed)?|status|code|terminat\w*)\b"
    r"[^\d]{0,30}?\b(?:code|status|value|with|of|:|=|is)?\s*"
    r"(?P<code>-?\b\d{1,3}\b(?![./%\d])|zero\b|non-?zero\b|not (?:0|zero))"
)
HTTP: Final = re.compile(
    r"\b(?:https?|respon\w+|status(?: code)?|returns?|health ?check|curl|requests?"
    r"|gets?"
    r"|answers?|reports?|endpoint)\b[^\d]{0,30}\b([1-5]\d\d)\b"
    r"(?! (?:rows|files|items|tests|lines|records|mb|kb|job|ms))"
)
PORT: Final = re.compile(r"\bports?[\s:#]+(\d{2,5})\b|(?<=:)(\d{2,5})\b")
READY: Final = re.compile(
    r"\b(?:ready|(?<!shows )(?<!show )(?<!pops )(?<!turns )up|listen(?:s|ing)?"
    r"|accept(?:s|ing)?|serv(?:es|ing)|online|live"
    r"|reachable|running|boot(?:s|ed)|start(?:s|ed)|started up|launch(?:es|ed)"
    r"|starts up|comes up|is back|finished starting)\b"
)
SERVING: Final = re.compile(
    r"\b(?:servers?|services?|app(?:lication)?|daemon|api|backend|frontend|database|db"
    r"|container|site|website|proxy|broker|cluster|listen\w*|accept\w*|serv(?:es|ing)"
    r"|ports?|http|it|up|ready|online|live|reachable|connections?|url|instance|system"
    r"|postgres\w*|mysql|mariadb|redis|mongo\w*|nginx|kafka|rabbitmq|uvicorn|gunicorn"
    r"|flask|django|vite|next|webpack|jupyter|elasticsearch|tomcat|spring|rails|puma"
    r"|node|express)\b"
)
CONNECTED: Final = re.compile(
    r"\bconnect(?:s|ed)\b|\bconnections? (?:is |was |has been )?(?:established|made"
    r"|up|opened)\b"
)
STATE: Final = re.compile(
    r"\b(healthy|unhealthy|active|running|started|stopped|exited|bound|available"
    r"|deployed|merged|approved|pending|terminating|terminated)\b"
)
_ARTICLE: Final = (
    r"(?:(?:a|an|any|the|some|first|fatal|critical|compile|compiler|compilation|build"
    r"|runtime|syntax|network|type|import|linker|unexpected|kind|sort|of|install\w*"
    r"|download|upload|deploy\w*|test|connection)\s+){0,4}"
)
_SHOWS: Final = (
    r"(?:there (?:is|are)|shows?|prints?|reports?|hits?|throws?|see|logs?|displays?"
    r"|raises|encounters?|runs into|returns|emits|outputs|gets|gives|says)"
)
TROUBLES: Final = (
    (
        "traceback",
        re.compile(r"\b(?:traceback|exceptions?|stack ?-?traces?)\b"),
    ),
    ("panic", re.compile(r"\bpanic(?:s|ked)?\b")),
    ("segfault", re.compile(r"\bseg(?:mentation )?-?faults?\b|\bcore dump\w*\b")),
    ("memory", re.compile(r"\bout of memory\b|\boom\b|\bmemory error\b")),
    (
        "disk",
        re.compile(r"\bno space\b|\bdisk (?:is )?full\b|\bout of (?:disk )?space\b"),
    ),
    ("timeout", re.compile(r"\btime[sd]?[ -]?out\b|\btimeouts?\b")),
    (
        "refused",
        re.compile(r"\bconnection (?:is |was )?refused\b|\bconnection error\b"),
    ),
    (
        "denied",
        re.compile(
            r"\bdenied\b|\bunauthori[sz]ed\b|\bforbidden\b|\bpermission error\b"
        ),
    ),
    ("notfound", re.compile(r"\b(?:not|can't|cannot) be found\b|\bnot found\b")),
    ("conflict", re.compile(r"\b(?:merge )?conflicts?\b")),
    (
        "warning",
        re.compile(
            r"^(?:(?:there (?:is|are)|[\w-]+ (?:emits?|reports?|prints?|shows?|gives?"
            r"|logs?))\s+)?(?:(?:an?|any|the|some|compiler|first|at least|one)\s+)"
            r"{0,3}warnings?(?: \w+){0,2}$"
        ),
    ),
    (
        "error",
        re.compile(
            rf"^(?:{_SHOWS}\s+)?{_ARTICLE}errors?(?: (?:message|dialog|line|text|popup"
            r"|box|log|output|in|the|output|logs|terminal|console))*$"
            rf"|^{_ARTICLE}errors? (?:\w+ ){{0,3}}?(?:appears?|occurs?|is|are|shows?"
            r"|happens?|pops?|comes?|gets?)\b"
            rf"|\b{_SHOWS} (?:an? |any |some |the )?(?:\w+ ){{0,2}}errors?$"
        ),
    ),
)
ANY_OUTPUT: Final = re.compile(
    r"\b(?:any(?:thing)?|some|something|new|first|more)(?: new| other)?"
    r" ?(?:output|text|line|lines|log line|is printed|prints?|happens|changes|arrives"
    r"|is shown|is written)\b|^(?:there is|it prints) (?:output|something)$"
)
EXAMPLE: Final = re.compile(
    r"^(?:e\.? ?g\.?|for (?:example|instance)|such as|like|maybe|usually)(?!\w)[,:]?\s*"
)
SAME: Final = re.compile(
    r"^(?:i\.? ?e\.?|that is|meaning|namely|it (?:prints|shows|says)|shown as"
    r"|signalled by|indicated by|when|with|look for|looks? like|shows?|prints?|says)"
    r"(?!\w)[,:]?\s*"
)
LITERAL: Final = re.compile(
    r"(?:(?:the )?(?:text|word|words|string|line|message|phrase|output)[:,]? )?"
    r"(?P<said>[A-Z][^\n]{2,160}?|[A-Z_]{3,40})"
    r"(?: (?:is|are|gets?) (?:printed|shown|displayed|output|visible|logged)"
    r"| (?:appears?|shows?(?: up)?)| in the (?:log|output|terminal)s?)?"
)
SENTENCE: Final = re.compile(
    r"^(?:The|A|An|It|Its|This|That|My|Our|Any|Some|No|When|Once|Until|If|I|Wake"
    r"|Either|One|There|Both|Something|Anything|Nothing|Everything)\b"
    r"|\b(?:is|are|has|have|was|were|been|finishes|completes|ends|exits|succeeds|fails"
    r"|starts|passes|returns|stops|hits|reaches|appears|shows|prints|says|the|gets|asks"
    r"|becomes|crashes|errors out|finds?|prompts?|pass|fail|finish|complete[sd]? "
    r"success"
    r"\w+|prompt|message|dialog|error)\b"
)
