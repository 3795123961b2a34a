#include <doctest/doctest.h>
#include "01_naive_attention/attention.hpp"
#include "common/tensor/random.hpp"
#include "common/check/acceptance.hpp"
TEST_CASE("smoke"){
  auto q=fa::normal_tensor<float,4>({1,2,17,8},1); auto qd=fa::converted<double>(q);
  auto f=fa::naive::forward<float>(q,q,q); auto d=fa::naive::forward<double>(qd,qd,qd);
  auto v=fa::accept("o",f.o,d.o,f.o); INFO(v.report()); CHECK(v.accepted); MESSAGE(v.report());
}
