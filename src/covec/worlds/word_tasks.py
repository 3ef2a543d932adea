"""Word tasks: pairs of a word and what a function makes of it, which a few demonstrations are enough to ask for.

Written for covec. Some answers are several tokens to most tokenizers.
"""

from __future__ import annotations

_TASKS = {
    "antonym": """
        hot:cold big:small up:down left:right good:bad day:night black:white high:low fast:slow rich:poor open:closed
        hard:soft light:dark happy:sad young:old early:late full:empty strong:weak true:false love:hate long:short
        wet:dry clean:dirty near:far thick:thin loud:quiet easy:difficult first:last win:lose buy:sell push:pull
        inside:outside above:below before:after begin:end start:finish alive:dead awake:asleep cheap:expensive
        sweet:bitter deep:shallow narrow:wide friend:enemy heavy:light increase:decrease internal:external major:minor
        maximum:minimum male:female more:less new:old north:south east:west pass:fail peace:war public:private
        rise:fall rough:smooth safe:dangerous same:different simple:complex success:failure summer:winter sunny:cloudy
        tall:short top:bottom victory:defeat warm:cool yes:no positive:negative right:wrong front:back rare:common
        ancient:modern broad:narrow brave:cowardly calm:nervous danger:safety forget:remember give:take healthy:sick
        import:export junior:senior lower:upper multiply:divide naked:dressed optimistic:pessimistic passive:active
        polite:rude question:answer receive:send rural:urban sharp:dull sink:float slim:fat straight:crooked
        tight:loose ugly:beautiful upstairs:downstairs vertical:horizontal visible:invisible wise:foolish
        accept:reject attack:defend arrive:leave always:never bright:dim entrance:exit guilty:innocent
        horizontal:vertical
    """,
    "present-past": """
        walk:walked talk:talked jump:jumped play:played look:looked call:called help:helped work:worked start:started
        ask:asked go:went see:saw eat:ate take:took give:gave come:came run:ran write:wrote speak:spoke break:broke
        drive:drove know:knew grow:grew fly:flew sing:sang swim:swam begin:began drink:drank think:thought
        bring:brought buy:bought catch:caught teach:taught fight:fought sell:sold tell:told say:said make:made
        have:had find:found hold:held stand:stood understand:understood leave:left keep:kept sleep:slept feel:felt
        meet:met send:sent spend:spent build:built lose:lost win:won sit:sat get:got forget:forgot choose:chose
        fall:fell wear:wore throw:threw draw:drew open:opened close:closed move:moved live:lived love:loved use:used
        change:changed follow:followed stop:stopped plan:planned try:tried carry:carried study:studied marry:married
        turn:turned watch:watched wait:waited visit:visited cook:cooked clean:cleaned climb:climbed dance:danced
        explain:explained finish:finished happen:happened learn:learned listen:listened need:needed paint:painted
        pull:pulled push:pushed reach:reached remember:remembered return:returned smile:smiled want:wanted
        become:became bite:bit blow:blew dig:dug feed:fed hear:heard hide:hid lead:led rise:rose shake:shook
        shine:shone shoot:shot steal:stole strike:struck
    """,
    "plural": """
        dog:dogs cat:cats car:cars house:houses book:books tree:trees child:children man:men woman:women foot:feet
        tooth:teeth mouse:mice city:cities country:countries baby:babies story:stories family:families party:parties
        box:boxes bus:buses class:classes church:churches dish:dishes watch:watches leaf:leaves life:lives
        knife:knives wife:wives wolf:wolves half:halves boy:boys girl:girls day:days key:keys toy:toys friend:friends
        student:students teacher:teachers school:schools room:rooms door:doors window:windows table:tables
        chair:chairs hand:hands eye:eyes ear:ears arm:arms leg:legs finger:fingers flower:flowers river:rivers
        mountain:mountains island:islands road:roads street:streets shop:shops farm:farms horse:horses cow:cows
        bird:birds animal:animals plant:plants apple:apples orange:oranges banana:bananas egg:eggs potato:potatoes
        tomato:tomatoes hero:heroes photo:photos game:games song:songs film:films letter:letters word:words
        number:numbers idea:ideas problem:problems question:questions answer:answers person:people
    """,
    "comparative": """
        big:bigger small:smaller tall:taller short:shorter long:longer fast:faster slow:slower high:higher low:lower
        strong:stronger weak:weaker young:younger old:older new:newer cheap:cheaper rich:richer poor:poorer hot:hotter
        cold:colder warm:warmer cool:cooler hard:harder soft:softer light:lighter dark:darker bright:brighter
        deep:deeper wide:wider narrow:narrower thick:thicker thin:thinner heavy:heavier easy:easier happy:happier
        busy:busier dirty:dirtier dry:drier early:earlier funny:funnier healthy:healthier lucky:luckier noisy:noisier
        pretty:prettier clean:cleaner clear:clearer close:closer fair:fairer fresh:fresher great:greater kind:kinder
        large:larger late:later loud:louder near:nearer nice:nicer quick:quicker quiet:quieter rough:rougher
        safe:safer sharp:sharper simple:simpler smart:smarter smooth:smoother sweet:sweeter tight:tighter wise:wiser
        good:better bad:worse far:farther
    """,
    "capital": """
        France:Paris Germany:Berlin Italy:Rome Spain:Madrid England:London Russia:Moscow China:Beijing Japan:Tokyo
        Egypt:Cairo Greece:Athens Portugal:Lisbon Austria:Vienna Poland:Warsaw Sweden:Stockholm Norway:Oslo
        Denmark:Copenhagen Finland:Helsinki Ireland:Dublin Scotland:Edinburgh Belgium:Brussels Hungary:Budapest
        Turkey:Ankara Iran:Tehran Iraq:Baghdad Syria:Damascus Lebanon:Beirut Jordan:Amman Cuba:Havana Canada:Ottawa
        Argentina:Buenos_Aires Chile:Santiago Peru:Lima Colombia:Bogotá Venezuela:Caracas Brazil:Brasília
        Kenya:Nairobi Nigeria:Abuja Ghana:Accra Ethiopia:Addis_Ababa Morocco:Rabat Algeria:Algiers Tunisia:Tunis
        Libya:Tripoli Senegal:Dakar Uganda:Kampala Zimbabwe:Harare India:New_Delhi Pakistan:Islamabad Bangladesh:Dhaka
        Nepal:Kathmandu Thailand:Bangkok Vietnam:Hanoi Indonesia:Jakarta Philippines:Manila Australia:Canberra
        Ukraine:Kyiv Romania:Bucharest Bulgaria:Sofia Serbia:Belgrade Croatia:Zagreb Slovenia:Ljubljana
        Slovakia:Bratislava Latvia:Riga Estonia:Tallinn Lithuania:Vilnius Iceland:Reykjavik Switzerland:Bern
        Netherlands:Amsterdam
    """,
}
TASKS = tuple(_TASKS)


def word_pairs(task: str) -> tuple[tuple[str, str], ...]:
    """The pairs of `task`, one of `TASKS`: a word, and what the function makes of it."""
    split = (pair.replace("_", " ").partition(":") for pair in _TASKS[task].split())
    return tuple((word, answer) for word, _, answer in split)
