#include "common/attention/tile_scheduler.cuh"
#include "common/classroom/grader.hpp"
#include "common/classroom/launches.hpp"

using namespace fa::classroom;
using fa::FA_TARGET::TileScheduler;

namespace {

constexpr int kTiles = FA_TILES, kSmsOfTwo = FA_SMS_TWO, kSmsOfThree = FA_SMS_THREE;

// Units of time of the tiles, in the scheduler's order.
std::vector<int> order_of(int heads, int together) {
  const TileScheduler scheduler{kTiles, heads, heads, together};
  std::vector<int> result;
  for (int i = 0; i < kTiles * heads; ++i) {
    result.push_back(work_tile(i, scheduler).block + 1);
  }
  return result;
}

// When the last SM is done, if each takes the next tile when it is free.
double dynamic(const std::vector<int>& order, int sms) {
  std::vector<int> done(static_cast<std::size_t>(sms));
  for (const int units : order) {
    *std::min_element(done.begin(), done.end()) += units;
  }
  return *std::max_element(done.begin(), done.end());
}

double work(const std::vector<int>& order) {
  double sum = 0;
  for (const int units : order) sum += units;
  return sum;
}

}  // namespace

FA_QUESTIONS {
  const std::vector<int> one = order_of(1, 1), plain = order_of(1, 0), two = order_of(2, 2),
                         three = order_of(3, 2);
  std::vector<int> last(three.begin() + kTiles, three.end());
  last.insert(last.end(), three.begin(), three.begin() + kTiles);
  const double in_order = dynamic(plain, 3), longest = dynamic(one, 3),
               least = std::ceil(work(one) / 3);
  const std::string sum = "this is the work of all SMs together";
  const double first = dynamic(three, kSmsOfThree), after = dynamic(last, kSmsOfThree);
  return {
      exactly("in_order", in_order,
              {{longest, "this is with the longest first"}, {work(one), sum}}),
      exactly("longest_first", longest,
              {{in_order, "this is with the shortest first"}, {work(one), sum}}),
      exactly("at_least", least,
              {{std::floor(work(one) / 3), "the last SM is done after whole units: round up"},
               {work(one), sum}}),
      exactly("two_heads", dynamic(two, kSmsOfTwo),
              {{2 * longest,
                "the SMs do not wait for one head to end before they take tiles of the other"},
               {work(two), sum}}),
      exactly("fewer_first", first,
              {{after, "this is with the group of two heads first"},
               {dynamic(order_of(3, 3), kSmsOfThree), "this is with all three heads in one group"},
               {work(three), sum}}),
      exactly("fewer_last", after,
              {{first, "this is with the single head first"}, {work(three), sum}})};
}
