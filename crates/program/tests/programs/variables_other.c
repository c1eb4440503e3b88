// Another unit of the same program: a variable of the same name, and the definition of a structure that is only declared
// elsewhere.
struct hidden {
    char pad[12];
    int secret;
};
static struct hidden hidden_value = {{0}, 99};
__attribute__((used)) struct hidden *shared_hidden = &hidden_value;
static int counter = 8; // MARK other counter
int other_counter(void) {
    return counter++; // MARK other line
}
